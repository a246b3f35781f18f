"""examples/37_resuming_client.cpp with servers whose connections are cut, and that are killed.

    resuming_client.py SERVER CLIENT [TEST ...]
"""
import json
import os
import random
import subprocess
import sys

import serving  # takes the server's path from the arguments

CLIENT = os.path.abspath(sys.argv.pop(1))

from serving import PATIENCE, Server, free_port  # noqa: E402
from test_resume import KING, QUESTION, ResumeTest  # noqa: E402
from test_resume_clients import Relay, Script, answer, event  # noqa: E402

GREEDY = {"prompt": KING, "max_tokens": 120, "temperature": 0, "ignore_eos": True}


def start(body, *ports):
    return subprocess.Popen([CLIENT, json.dumps(body), *("http://127.0.0.1:%d" % port for port in ports)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)  # communicate() skips buffers


def run(body, *ports):
    """The exit status, the text, and what is said of cuts."""
    with start(body, *ports) as client:
        text, said = client.communicate(timeout=PATIENCE)
    return client.returncode, text.decode("utf-8"), said.decode("utf-8")


class Client(ResumeTest):
    def text(self, body):
        """The text of the uncut answer, as the client prints it."""
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        choice = self.openai(path, body)["choices"][0]
        return (choice["message"]["content"] if "messages" in body else choice["text"]) + "\n"

    def test_an_answer_without_a_cut(self):
        self.assertEqual(run(GREEDY, self.server.port), (0, self.text(GREEDY), ""))

    def test_cuts_at_any_byte(self):
        draw, cuts = random.Random(11), 0
        for body in [GREEDY, GREEDY | {"temperature": 1.5, "seed": 9}, GREEDY | {"model": "weather"},
                     {"messages": QUESTION, "max_tokens": 60, "temperature": 1, "seed": 4}]:
            relays = [Relay(each.port, (draw.randint(1, 4000) for _ in range(10**6))) for each in [self.server, self.other]]
            status, text, said = run(body, *(relay.port for relay in relays))
            self.assertEqual((status, text), (0, self.text(body)), said)
            self.assertGreaterEqual(said.count("\n"), sum(relay.cuts for relay in relays) - 1)
            for relay in relays:
                relay.close()
                cuts += relay.cuts
        self.assertGreater(cuts, 20)

    def test_a_server_is_killed(self):
        body = GREEDY | {"max_tokens": 900}
        with Server(*self.FLAGS) as first, start(body, first.port, self.other.port) as client:
            begin = client.stdout.read(20)
            first.kill()
            rest, said = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, said)
        self.assertEqual((begin + rest).decode("utf-8"), self.text(body))
        self.assertIn(b"%d: " % first.port, said)

    def test_a_replica_that_refuses_leaves_the_stream_to_the_next(self):
        key = self.folder / "foreign.key"
        key.write_text("another secret of at least thirty-two bytes")
        relay = Relay(self.server.port, (4000 for _ in range(10**6)))
        with Server("--resume-key-file", key) as foreign:
            status, text, said = run(GREEDY, relay.port, foreign.port, self.other.port)
            self.assertEqual((status, text), (0, self.text(GREEDY)), said)
            self.assertIn("not given by a server with this --resume-key-file", said)
        relay.close()
        with Server() as keyless:
            status, text, said = run(GREEDY, keyless.port, keyless.port)
            self.assertEqual((status, text), (1, ""))
            self.assertIn("--resume-key-file", said)

    def test_it_gives_up_after_some_tries(self):
        relay = Relay(self.server.port, iter([4000] + [1] * 100))
        status, text, said = run(GREEDY, relay.port)
        relay.close()
        self.assertEqual(status, 1)
        self.assertTrue(text and self.text(GREEDY).startswith(text))
        self.assertEqual(said.count("127.0.0.1"), 11)  # the cut, and ten tries
        self.assertIn("cannot be continued", said)
        status, text, said = run(GREEDY, free_port(), free_port())
        self.assertEqual((status, text), (1, ""))

    def test_answers_that_a_server_gives_seldom(self):
        openai = '{"error": {"message": "m", "type": "server_error", "param": null, "code": %s}}'
        cases = [  # answers of the server, the client's exit status and text, the predictions that it sends
            ([answer(200, event(1, "a")), answer(400, b"{}"), answer(200, event(2, "b") + event(3, "[DONE]"))], 0, "ab\n", [None, "a", None]),
            ([answer(200, event(1, "a")), answer(400, b"{}"), answer(400, b"{}")], 1, "a", [None, "a", None]),
            ([answer(200, event(1, "a")), answer(503, b"{}", "Retry-After: 1"), answer(200, event(2, "[DONE]"))], 0, "a\n", [None, "a", "a"]),
            ([answer(200, event(1, "a") + event(0, openai % "null", id_="")), answer(200, event(2, "[DONE]"))], 0, "a\n", [None, "a"]),
            ([answer(200, event(1, "a") + event(0, openai % '"timeout"', id_=""))], 1, "a", [None]),
            ([answer(500, b"{}", "x-should-retry: false")], 1, "", [None]),
            ([answer(200, event(1, "a", id_=""))], 1, "", [None]),
            ([answer(200, event(1, "\u00e9", "\r\n") + b": comment\r\n\r\n" + event(2, "[DONE]", "\r\n"))], 0, "\u00e9\n", [None])]
        for answers, status, text, predicted in cases:
            script = Script(*answers)
            port = int(script.url.split(":")[2].split("/")[0])
            got = run({"prompt": "x"}, port)
            self.assertEqual(got[:2], (status, text), got)
            self.assertEqual([body.get("prediction", {}).get("content") for _, body in script.requests], predicted)
            self.assertEqual([headers.get("Last-Event-ID") for headers, _ in script.requests], [None] + ["e1"] * (len(predicted) - 1))


if __name__ == "__main__":
    serving.main()
