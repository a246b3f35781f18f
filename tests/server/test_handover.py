"""Hand-over: a server that SIGUSR2 ends writes its running streams, and the next one goes on with them."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import serving
from serving import PATIENCE, ROOT, Server, free_port
from test_resume import CASES, KING, USAGE, ResumeTest, events, parsed, root_of, text_of
from resuming_stream import resuming_stream  # in the folder that test_resume adds

STREAMS = int(os.environ.get("TENON_TEST_HANDOVER", 6 if serving.is_sanitized() else 25))
LONG = {"ignore_eos": True} | USAGE
SLOW = "/v1/completions", {"prompt": KING + " that the king said" * 120, "max_tokens": 200, "temperature": 0.8} | LONG


class HandoverTest(ResumeTest):
    def setUp(self):
        self.spool = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.flags = [*self.FLAGS, "--handover", self.spool, "--stream-interval", 0]

    def start(self, *more, port=0):
        server = Server(*self.flags, *more, port=port)
        self.addCleanup(server.__exit__)
        return server

    def start_slow(self, *more):
        """A server that computes the whole text again for each token, so that streams last. Its bits are the same."""
        return self.start("--cache", "none", *more)

    def hand_over(self, server):
        """Ends a server by SIGUSR2. Returns what it wrote."""
        server.signal(signal.SIGUSR2)
        self.assertEqual(server.ended(), 0, server.text())
        return self.written()

    def written(self):
        return {path.stem: json.loads(path.read_text()) for path in self.spool.iterdir()}

    def begun(self, server, case, most=5, headers=None):
        """A connection that has read the first events of a stream and reads no more, and these events."""
        path, body = case
        stream = server.stream(path, dict(body, stream=True, resumable=True), headers)
        self.assertEqual(stream.status, 200)
        self.addCleanup(stream.close)
        waiting, got = b"", []
        while len(got) < most:
            *blocks, waiting = (waiting + stream.response.read1(4096)).split(b"\n\n")
            got += filter(None, map(parsed, blocks))
        return stream, got[:most]

    def tokens(self, stream):
        """The tokens of a whole stream of /v1/completions with its usage."""
        return json.loads(stream[-2].data)["usage"]["completion_tokens"]

    def computed(self, server):
        return server.wait_quiet()["tenon_tokens_total"]



class Upgrades(HandoverTest):
    def test_under_load(self):
        """STREAMS clients, of every kind of stream, go on with the next server at the same address."""
        cases = [(name, (path, dict(body))) for name, (path, body) in CASES.items()]
        for _, (path, body) in cases:
            body.get("parameters", body)["max_new_tokens" if "parameters" in body else "max_tokens"] = 200
            if path == "/v1/completions" and "response_format" not in body:
                body.update(LONG)
        port, errors = free_port(), []
        first = self.start(port=port)
        ready, streams, cuts = threading.Semaphore(0), [None] * STREAMS, []

        def client(number):
            name, (path, body) = cases[number % len(cases)]
            got = streams[number] = []
            try:
                urls = ["http://127.0.0.1:%d%s" % (port, path)]
                for event in resuming_stream(urls, body, retries=1000, longest_pause=0.2, timeout=PATIENCE, on_cut=cuts.append):
                    got.append(event)
                    if len(got) == 3:
                        ready.release()
            except Exception as error:
                errors.append((name, error))
            ready.release()

        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            running = [pool.submit(client, number) for number in range(STREAMS)]
            for _ in range(STREAMS):
                ready.acquire()
            written = self.hand_over(first)
            modes = {stat.S_IMODE(path.stat().st_mode) for path in self.spool.iterdir()}
            second = self.start(port=port)
            for each in running:
                each.result()
        self.assertEqual(errors, [])
        self.assertEqual(modes, {0o600})
        self.assertGreater(len(written), 0, first.text())  # on a busy machine most streams have ended by then
        self.assertIn("handed over %d streams" % len(written), first.text())
        self.assertIn("took up %d streams" % len(written), second.text())
        self.assertEqual(self.written(), {})
        computed = self.computed(second)
        changed = [name for number, (name, case) in ((n, cases[n % len(cases)]) for n in range(STREAMS))
                   if streams[number][1:] != events(self.server, case, streams[number][0].id)]
        had = sum(len(choice["ids"]) for each in written.values() for choice in each["progress"]["choices"])
        print("%d streams, %d handed over with %d tokens, %d tokens computed after it, %d cuts; changed: %s" % (
            STREAMS, len(written), had, computed, len(cuts), changed), file=sys.stderr)
        self.assertEqual(changed, [])
        self.assertEqual(second.stop(), 0)

    def test_nothing_is_computed_twice(self):
        """The next server computes the tokens that are missing alone, in whatever way the client comes back."""
        for predicts in [False, True]:
            first = self.start_slow("--draft", "none")
            _, got = self.begun(first, SLOW)
            (answer, written), = self.hand_over(first).items()
            self.assertEqual(written["body"], json.dumps(dict(SLOW[1], stream=True, resumable=True)))
            ids = written["progress"]["choices"][0]["ids"]
            self.assertGreaterEqual(len(ids), 5)
            second = self.start("--draft", "none")
            rest = events(second, SLOW, got[-1].id, prediction=text_of(got) if predicts else None)
            self.assertEqual(got[1:] + rest, events(self.server, SLOW, got[0].id))
            self.assertEqual(self.computed(second), self.tokens(rest) - len(ids))
            self.assertEqual(second.stop(), 0)

    def test_every_kind_of_stream(self):
        for name, case in list(CASES.items())[::3 if serving.is_sanitized() else 1]:
            with self.subTest(name):
                first = self.start()
                _, got = self.begun(first, case, most=2)
                written = self.hand_over(first)
                second = self.start()
                rest = events(second, case, got[-1].id)
                self.assertEqual(got[1:] + rest, events(self.server, case, got[0].id))
                self.assertLessEqual(len(written), 1)  # 0: it had ended
                second.__exit__()

    def test_a_server_that_runs_takes_it_up_when_the_client_comes(self):
        first, second = self.start_slow("--draft", "none"), self.start("--draft", "none")
        _, got = self.begun(first, SLOW)
        (answer, written), = self.hand_over(first).items()
        rest = events(second, SLOW, got[-1].id)
        self.assertEqual(got[1:] + rest, events(self.server, SLOW, got[0].id))
        self.assertEqual(self.computed(second), self.tokens(rest) - len(written["progress"]["choices"][0]["ids"]))
        self.assertEqual(self.written(), {})
        self.assertEqual(second.stop(), 0)

    def test_again_and_again_with_and_without_the_client(self):
        """By SIGUSR2 and by SIGTERM, before the client has come, and after it has."""
        server = self.start_slow()
        _, got = self.begun(server, SLOW, most=3)
        for turn, end in enumerate([signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR2, signal.SIGUSR2]):
            server.signal(end)
            self.assertEqual(server.ended(), 0, server.text())
            if turn < 3:  # then it may have ended, with the client
                self.assertEqual(len(self.written()), 1, server.text())
            server = self.start()
            if turn == 2:
                got += self.begun(server, SLOW, 4, {"Last-Event-ID": got[-1].id})[1]
        got += events(server, SLOW, got[-1].id)
        self.assertEqual(got[1:], events(self.server, SLOW, got[0].id))
        self.assertEqual(server.stop(), 0)

    def test_what_cannot_be_continued_is_finished(self):
        first = self.start_slow("--shutdown-timeout", 300)
        path, body = SLOW
        body = body | {"prompt": KING + " that the king said" * 25, "max_tokens": 20, "n": 2}
        answers = {}

        def whole():
            answers["whole"] = first.post(path, {k: v for k, v in body.items() if k != "stream_options"} | {"seed": 5})

        def plain():
            with first.stream(path, body | {"seed": 6, "stream": True}) as stream:
                answers["plain"] = [json.dumps(each) for each in stream]

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(whole), pool.submit(plain)]
            serving.eventually(lambda: first.metric("tenon_requests_open") == 2, "two requests")
            _, got = self.begun(first, SLOW)
            written = self.hand_over(first)
            for each in running:
                each.result()
        self.assertEqual(len(written), 1)
        self.assertEqual(answers["whole"].status, 200)
        self.assertEqual(answers["whole"].json()["usage"]["completion_tokens"], 40)
        self.assertEqual(answers["plain"][-1], '"[DONE]"')
        self.assertIn('"reason":"moved"', first.text())

    def two_handed(self, *flags):
        """The next server computes one of two streams, and the other one waits. What their clients have."""
        first = self.start_slow("--draft", "none")
        streams = [self.begun(first, SLOW) for _ in range(2)]
        self.assertEqual(len(self.hand_over(first)), 2)
        rest = [stream.response.read().split(b"\n\n") for stream, _ in streams]
        got = [have + [parsed(block) for block in blocks if block.startswith(b"id:")] for (_, have), blocks in zip(streams, rest)]
        return got, self.start_slow("--draft", "none", "--batch", "1", "--scheduler", "sequential")

    def continues(self, server, got):
        path, body = SLOW
        return server.stream(path, dict(body, stream=True, resumable=True), {"Last-Event-ID": got[-1].id})

    def test_again_before_a_continued_stream_has_anything_new(self):
        got, second = self.two_handed()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(lambda each=each: self.continues(second, each).response.read()) for each in got]
            serving.eventually(lambda: second.metric("lorax_request_count") == 2, "two clients")
            self.assertEqual(len(self.hand_over(second)), 2, second.text())
            for each in running:  # the second: its request came a moment too late
                self.assertTrue(b"handed over" in each.result() or b"going down" in each.result(), each.result())

    def test_a_client_that_leaves_before_anything_new_may_come_again(self):
        got, second = self.two_handed()
        path, body = SLOW
        # Files are taken up in the order of their names, and the server computes one after the other: this one waits.
        answer, last = max((json.loads(each[0].data)["id"], each[-1].id) for each in got)
        sent = json.dumps(dict(body, stream=True, resumable=True)).encode()
        head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nLast-Event-ID: %s\r\n\r\n" % (path, len(sent), last)
        with socket.create_connection(("127.0.0.1", second.port)) as connection:
            connection.sendall(head.encode() + sent)
            time.sleep(0.3)
        serving.eventually(lambda: '"status":499' in second.text(), second.text)  # before the first event, or after it
        self.assertIn(answer, self.hand_over(second), second.text())

    def test_a_disk_that_fails(self):
        first = self.start_slow("--draft", "none", "--shutdown-timeout", 300)
        streams = [self.begun(first, SLOW) for _ in range(3)]
        shutil.rmtree(self.spool)
        first.signal(signal.SIGUSR2)
        rest = [stream.response.read() for stream, _ in streams]
        self.assertEqual(first.ended(), 0, first.text())
        self.assertEqual(sum(b"has not handed the stream over" in each for each in rest), 1, first.text())
        self.assertEqual(sum(b'"finish_reason": "length"' in each or b'"finish_reason":"length"' in each for each in rest), 2)

    def test_the_end_of_the_stream_says_so(self):
        first = self.start_slow()
        stream, got = self.begun(first, SLOW)
        self.hand_over(first)
        rest = b""
        while piece := stream.response.read1(65536):
            rest += piece
        *_, last, done = rest.rstrip(b"\n").split(b"\n\n")
        self.assertIn(b"handed over", last)
        self.assertTrue(last.startswith(b"data: "), last)  # without an id: it is no part of the answer
        self.assertEqual(done, b"data: [DONE]")


class Ends(HandoverTest):
    """Files that nobody takes up, and what they hold."""

    def handed(self, *flags, case=SLOW, headers=None):
        first = self.start_slow(*flags)
        first.key = headers and headers.get("X-Api-Key")
        _, got = self.begun(first, case, headers=headers)
        (answer, written), = self.hand_over(first).items()
        return got, self.spool / (answer + ".stream")

    def not_taken(self, server, part, file):
        """The file stays for other servers."""
        serving.eventually(lambda: part in server.text(), lambda: "no message: " + server.text())
        self.assertEqual(list(self.spool.iterdir()), [file])

    def test_their_time_is_over(self):
        got, file = self.handed()
        os.utime(file, (time.time() - 301,) * 2)
        second = self.start()
        self.assertEqual(self.written(), {})
        self.assertNotIn("took up", second.text())
        self.assertEqual(got[1:] + events(second, SLOW, got[-1].id), events(self.server, SLOW, got[0].id))
        got, file = self.handed()
        told = json.loads(file.read_text())
        self.assertLess(abs(told["until"] - time.time() - 300), 30)
        file.write_text(json.dumps(told | {"until": int(time.time()) - 1}))
        self.start()
        self.assertEqual(self.written(), {})

    def test_a_client_that_does_not_come(self):
        """The answer is dropped, and the client has it computed again."""
        got, file = self.handed("--handover-timeout", 2)
        second = self.start("--handover-timeout", 2)
        self.assertIn("took up 1 streams", second.text())
        part = self.spool / "cmpl-0.stream.1-0.part"  # of a server that was killed
        part.write_text("")
        time.sleep(13)  # a sweep each 10 s
        second.signal(signal.SIGUSR2)
        self.assertEqual(second.ended(), 0)
        self.assertEqual(self.written(), {})

    def test_other_engines(self):
        got, file = self.handed()
        model = self.folder / "other-tales"
        shutil.copytree(ROOT / "examples" / "models" / "tales", model)
        weights = bytearray((model / "model.safetensors").read_bytes())
        weights[-4] ^= 1
        (model / "model.safetensors").write_bytes(weights)
        second = self.start("--model", model, "--served-model-name", "tales")
        self.not_taken(second, "another engine", file)
        self.refuses(second, SLOW, got[-1].id, 400, "another engine")
        third = self.start("--draft", "none")
        self.assertIn("took up 1 streams", third.text())
        self.assertEqual(got[1:] + events(third, SLOW, got[-1].id), events(self.server, SLOW, got[0].id))

    def test_other_versions_and_forms(self):
        """An id of another version of the server is known by the file."""
        got, file = self.handed()
        told = json.loads(file.read_text())
        self.assertEqual(len(told["versions"]), 1)
        file.write_text(json.dumps(told | {"versions": ["0.0.1", *told["versions"]]}))
        second = self.start()
        self.assertEqual(got[1:] + events(second, SLOW, got[-1].id), events(self.server, SLOW, got[0].id))
        got, file = self.handed()
        file.write_text(json.dumps(json.loads(file.read_text()) | {"versions": ["0.0.1"]}))
        third = self.start()
        self.refuses(third, SLOW, got[-1].id, 400, "another engine")
        got, file = self.handed()
        file.write_text(json.dumps(json.loads(file.read_text()) | {"event_form": 0}))
        self.not_taken(self.start(), "another form", file)

    def test_damaged_files(self):
        got, file = self.handed()
        text = file.read_text()
        told = json.loads(text)
        damaged = ["", "{", text[:-20], json.dumps(told | {"format": 2}), json.dumps(told | {"route": "/none"}), json.dumps(told | {"body": "{}"}),
                   json.dumps(told | {"body": json.dumps({"prompt": KING})}), json.dumps(told | {"answer": "../x"}), json.dumps(told | {"seed": -1}),
                   json.dumps(told | {"progress": told["progress"] | {"choices": []}}), "[" * 100000, json.dumps(told | {"owner": "nobody"})]
        for content in damaged:
            file.write_text(content)
            server = self.start()
            self.not_taken(server, "not taken up", file)
            self.assertEqual(file.read_text(), content)
            self.assertEqual(got[1:] + events(server, SLOW, got[-1].id), events(self.server, SLOW, got[0].id))
            server.__exit__()

    def test_an_adapter_of_other_content(self):
        case = "/v1/completions", SLOW[1] | {"model": "cloud"}
        root = self.folder / "handover-root"
        root_of(root, "weather")
        got, file = self.handed("--adapter-root", root, case=case)
        root_of(root, "shakespeare")
        second = self.start("--adapter-root", root)
        self.not_taken(second, "adapters", file)
        self.refuses(second, case, got[-1].id, 400, "adapter")

    def test_keys(self):
        keys = self.folder / "handover-keys"
        keys.write_text("sk-a name=team\nsk-b name=others\n")
        flags = ["--api-key-file", keys]
        got, file = self.handed(*flags, headers={"X-Api-Key": "sk-a"})
        second = self.start(*flags)
        self.refuses(second, SLOW, got[-1].id, 403, "another API key", {"X-Api-Key": "sk-b"})
        rest = events(second, SLOW, got[-1].id, headers={"X-Api-Key": "sk-a"})
        self.assertEqual(json.loads(rest[-2].data)["usage"]["completion_tokens"], SLOW[1]["max_tokens"])
        got, file = self.handed(*flags, headers={"X-Api-Key": "sk-a"})
        keys.write_text("sk-b name=others\n")
        self.not_taken(self.start(*flags), "API key", file)

    def test_flags(self):
        def fails(status, part, *flags):
            done = subprocess.run([serving.PROGRAM, *map(str, flags)], capture_output=True, text=True, env=serving.environment())
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(part, done.stderr)

        fails(2, "--resume-key-file", "--handover", self.spool)
        fails(1, "is no folder", "--resume-key-file", self.key, "--handover", self.spool / "none")
        self.spool.chmod(0o777)
        fails(1, "chmod 700", "--resume-key-file", self.key, "--handover", self.spool)
        if os.geteuid() == 0:
            self.spool.chmod(0o700)
            os.chown(self.spool, 12345, -1)
            fails(1, "another user", "--resume-key-file", self.key, "--handover", self.spool)


if __name__ == "__main__":
    serving.main()
