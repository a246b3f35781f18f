"""tenon-serve-small through plain HTTP: both APIs, complete and streamed, adapters, refusals and limits."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(sys.argv.pop(1))
PATIENCE = float(os.environ.get("TENON_TEST_PATIENCE", 60))
MODEL = ROOT / "examples" / "models" / "tales"


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = subprocess.Popen([PROGRAM, MODEL, "0"], stderr=subprocess.PIPE, encoding="utf-8")
        cls.port = int(re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", cls.process.stderr.readline())[1])

    @classmethod
    def tearDownClass(cls):
        cls.process.kill()
        cls.process.wait()
        cls.process.stderr.close()

    def ask(self, path, body=None):
        """Status and bytes of an answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            # Without it urllib says that the body is a form, of which cpp-httplib takes 8 KiB.
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def json(self, path, body):
        status, read = self.ask(path, body)
        self.assertEqual(status, 200, read)
        return json.loads(read)

    def events(self, path, body):
        status, read = self.ask(path, body)
        self.assertEqual(status, 200, read)
        self.assertTrue(read.endswith(b"\n\n"))
        return [line.removeprefix(b"data: ").decode() for line in read[:-2].split(b"\n\n")]

    def test_health(self):
        self.assertEqual(self.ask("/health"), (200, b""))

    def test_lorax(self):
        body = {"inputs": "The king said", "parameters": {"max_new_tokens": 12, "details": True}}
        whole = self.json("/generate", body)
        details = whole["details"]
        self.assertEqual((details["finish_reason"], details["generated_tokens"], len(details["tokens"])), ("length", 12, 12))
        self.assertEqual("".join(token["text"] for token in details["tokens"]), whole["generated_text"])
        self.assertTrue(all(token["logprob"] < 0 for token in details["tokens"]))
        self.assertEqual(self.json("/", body), [whole])
        for events in [self.events("/generate_stream", body), self.events("/", body | {"stream": True})]:
            tokens = [json.loads(event) for event in events]
            self.assertEqual([token["token"] for token in tokens], details["tokens"])
            self.assertEqual([token["generated_text"] for token in tokens], [None] * 11 + [whole["generated_text"]])

    def test_openai(self):
        body = {"prompt": "The king said", "max_tokens": 12, "temperature": 0}
        whole = self.json("/v1/completions", body)
        expected = self.json("/generate", {"inputs": "The king said", "parameters": {"max_new_tokens": 12}})["generated_text"]
        self.assertEqual((whole["choices"][0]["text"], whole["choices"][0]["finish_reason"]), (expected, "length"))
        self.assertEqual(whole["usage"]["completion_tokens"], 12)
        *events, end = self.events("/v1/completions", body | {"stream": True})
        self.assertEqual(end, "[DONE]")
        self.assertEqual("".join(json.loads(event)["choices"][0]["text"] for event in events), expected)

    def test_stops_and_seeds(self):
        text = self.json("/v1/completions", {"prompt": "The king said", "max_tokens": 12, "temperature": 0})["choices"][0]["text"]
        stop = text[5:8]
        cut = self.json("/v1/completions", {"prompt": "The king said", "max_tokens": 12, "temperature": 0, "stop": stop})["choices"][0]
        self.assertEqual((cut["text"], cut["finish_reason"]), (text[: text.index(stop)], "stop"))
        kept = self.json("/generate", {"inputs": "The king said", "parameters": {"max_new_tokens": 12, "stop": [stop], "details": True}})
        self.assertTrue(kept["generated_text"].endswith(stop))
        self.assertEqual(kept["details"]["finish_reason"], "stop_sequence")
        drawn = [self.json("/generate", {"inputs": "The", "parameters": {"do_sample": True, "seed": seed, "max_new_tokens": 20}})["generated_text"]
                 for seed in [1, 1, 2]]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_adapters_run_side_by_side(self):
        asked = [None, "weather", "shakespeare", "characters"] * 2
        answers = [None] * len(asked)

        def one(i):
            parameters = {"max_new_tokens": 16, "adapter_id": asked[i]}
            answers[i] = self.json("/generate", {"inputs": "The king said", "parameters": parameters})["generated_text"]

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(asked))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(answers[:4], answers[4:])
        self.assertEqual(len(set(answers)), 4)

    def test_refusals(self):
        for path, body, part in [
            ("/generate", b"{", "JSON object"),
            ("/generate", b"[]", "JSON object"),
            # Without a limit of its own, the copies of such a value exhaust a thread's stack.
            ("/generate", b'{"inputs": "a", "parameters": {"stop": %s1%s}}' % (b"[" * 400_000, b"]" * 400_000), "stop"),
            ("/generate", {"inputs": 5}, "inputs"),
            ("/generate", {"inputs": "a", "parameters": {"max_new_tokens": -1}}, "max_new_tokens"),
            ("/generate", {"inputs": "a", "parameters": {"best_of": 2}}, "best_of"),
            ("/generate", {"inputs": "a", "parameters": {"stop": 5}}, "stop"),
            ("/generate", {"inputs": "a", "parameters": {"adapter_id": "../../etc"}}, "adapter"),
            ("/generate", {"inputs": "a " * 5000}, "tokens"),
            ("/v1/completions", {"prompt": "a", "n": 2}, "n"),
            ("/v1/completions", {"prompt": "a", "model": "nothing"}, "nothing"),
        ]:
            status, answer = self.ask(path, body)
            self.assertEqual(status, 422, (str(body)[:100], answer))
            error = json.loads(answer)["error"]
            self.assertIn(part, error["message"] if path.startswith("/v1") else error)
        self.assertEqual(self.ask("/generate", b'{"inputs": "%s"}' % (b"a" * (2 << 20)))[0], 413)
        # Null, false and empty lists ask for nothing: lorax-client sends all of its fields.
        self.json("/generate", {"inputs": "a", "parameters": {"best_of": None, "watermark": False, "merged_adapters": None, "stop": []}})

    def test_chunked_bodies_are_refused(self):
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as s:
            s.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 411 "))

    def test_bodies_without_a_bound_are_refused(self):
        for head in [b"", b"Content-Encoding: gzip\r\nContent-Length: 2\r\n"]:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as s:
                s.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n{}")
                self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 411 "), head)

    def test_arguments(self):
        for arguments in [[], [ROOT / "nothing"], [MODEL, str(self.port)], [MODEL, "x"]]:
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, encoding="utf-8", timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertTrue(done.stderr.startswith("tenon-serve-small: "), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
