"""The server from start to end: flags, variables, files, readiness, signals."""
import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import serving
from serving import PATIENCE, Server, environment, eventually, free_port

KING = "The king said"
LONG = {"inputs": KING, "parameters": {"max_new_tokens": 1000, "ignore_eos_token": True, "details": True}}


def flooded(server, count=6, asked=LONG):
    """`count` long streams at once, each of which has begun."""
    streams = [server.stream("/generate_stream", asked) for _ in range(count)]
    for stream in streams:
        next(stream)
    return streams


class Start(unittest.TestCase):
    def test_help_and_version(self):
        done = serving.run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ["--port", "--model", "--adapter-root", "--api-key-file", "TENON_"]:
            self.assertIn(word, done.stdout)
        table = subprocess.run([serving.ROOT / "scripts" / "settings-table", serving.PROGRAM, "--check"], capture_output=True, encoding="utf-8")
        self.assertEqual((table.returncode, table.stdout), (0, ""))
        done = serving.run("--version")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1))

    def test_wrong_usage(self):
        cases = [["--nothing"], ["stray"], ["--port"], ["--port", "x"], ["--port", 65536], ["--port", -1], ["--port", "08080"],
                 ["--port", ""], ["--batch", 0],
                 ["--max-n", 1.5], ["--weights", "gold"], ["--request-timeout", "soon"], ["--request-timeout", -1], ["--header-timeout", 0],
                 ["--request-timeout", "nan"], ["--block", 17], ["--chat-template", "own"], ["--cors-origin", "*"],
                 ["--served-model-name", "a b"],
                 ["--payload-limit", 10], ["--config", "/no/such/file"], ["--max-total-tokens", 5000], ["--max-input-length", 1024],
                 ["--port", 1, "--port", 2]]
        for flags in cases:
            done = serving.run(*flags)
            self.assertEqual(done.returncode, 2, (flags, done.stderr))
            self.assertEqual(done.stdout, "")
            said = done.stderr.splitlines()[-1]
            self.assertTrue(said.startswith("tenon: "), (flags, done.stderr))
            if flags != ["stray"]:
                self.assertIn(str(flags[0]), said, flags)

    def test_a_key_is_never_shown(self):
        for flags in [["--api-key", "hush-hush", "--port", "x"], ["--nothing=hush-hush"],
                      ["--api-key=hush-hush", "hush-hush-too", "--port", 0]]:
            done = serving.run(*flags)
            self.assertEqual(done.returncode, 2)
            self.assertNotIn("hush", done.stderr)

    def test_beyond_this_machine_only_with_a_key(self):
        for host in ["0.0.0.0", "::", "10.0.0.1"]:
            done = serving.run("--host", host, "--port", 0)
            self.assertEqual(done.returncode, 2, host)
            self.assertIn("--host", done.stderr)
            self.assertIn("--api-key-file", done.stderr)
        for flags in [["--insecure"], ["--api-key", "k"]]:
            with Server("--host", "0.0.0.0", *flags) as server:
                self.assertEqual(server.get("/health").status, 200)
                self.assertEqual(server.stop(), 0)

    def test_no_address_of_this_machine(self):
        done = serving.run("--host", "192.0.2.1", "--port", 0, "--insecure")
        self.assertEqual(done.returncode, 1)
        self.assertIn("192.0.2.1", done.stderr)

    def test_an_ipv6_address(self):
        try:
            with socket.socket(socket.AF_INET6) as s:
                s.bind(("::1", 0))
        except OSError as error:
            self.skipTest("no IPv6 here: %s" % error)
        for host in ["::1", "[::1]"]:
            with Server("--host", host) as server:
                self.assertIn("\ntenon: listening on http://[::1]:%d\n" % server.port, server.text())
                self.assertIn("\ntenon: listen = [::1]:0\n", server.text())
                with contextlib.closing(http.client.HTTPConnection("::1", server.port, timeout=PATIENCE)) as connection:
                    self.assertEqual(server.ask("GET", "/health", connection=connection).status, 200)
                done = serving.run("--host", "::1", "--port", server.port)
                self.assertEqual(done.returncode, 1)
                self.assertIn("[::1]:%d is taken" % server.port, done.stderr.splitlines()[-1])
                self.assertEqual(server.stop(), 0)

    def test_a_port_that_is_taken(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            done = serving.run("--port", port)
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:%d is taken" % port, done.stderr.splitlines()[-1])
        with Server() as server:  # taken by another tenon-serve
            done = serving.run("--port", server.port)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(server.get("/ready").status, 200)
            self.assertEqual(server.stop(), 0)

    def test_a_model_that_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            for model in [folder, folder + "/nothing"]:
                done = serving.run("--model", model, "--port", 0)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertTrue(done.stderr.splitlines()[-1].startswith("tenon: "))

    def test_a_file_of_keys_that_is_none(self):
        done = serving.run("--api-key-file", "/no/such/file", "--port", 0)
        self.assertIn(done.returncode, [1, 2])
        self.assertIn("--api-key-file", done.stderr)

    def test_keys_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("# ours\nfirst-key\n\nsecond-key\n")
            keys.chmod(0o600)
            with Server("--api-key-file", keys) as server:
                for key, status in [("first-key", 200), ("second-key", 200), ("# ours", 401), ("", 401)]:
                    self.assertEqual(server.get("/v1/models", headers={"X-Api-Key": key}).status, status, key)
                self.assertNotIn("first-key", server.text())
                self.assertEqual(server.stop(), 0)


class Settings(unittest.TestCase):
    def name_of(self, *flags, **variables):
        with Server(*flags, env=environment(**variables)) as server:
            info = server.get("/info").json()
            self.assertEqual(server.stop(), 0)
        return info["model_id"], info["max_best_of"], info["max_stop_sequences"]

    def test_flags_beat_variables_which_beat_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "serve.toml"
            file.write_text('served-model-name = "of-file"\nmax-best-of = 5\nmax-stop-sequences = 7\n')
            self.assertEqual(self.name_of("--config", file), ("of-file", 5, 7))
            self.assertEqual(self.name_of(TENON_CONFIG=str(file)), ("of-file", 5, 7))
            variables = {"TENON_SERVED_MODEL_NAME": "of-variable", "TENON_MAX_BEST_OF": "4"}
            self.assertEqual(self.name_of("--config", file, **variables), ("of-variable", 4, 7))
            self.assertEqual(self.name_of("--config", file, "--served-model-name", "of-flag", **variables), ("of-flag", 4, 7))
            self.assertEqual(self.name_of(TENON_MAX_BEST_OF=""), ("tales", 2, 10))  # an empty value counts as not set
            file.write_text("no-such-flag = 3\n")
            done = serving.run("--config", file)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--config", done.stderr)
        self.assertEqual(serving.run(env=environment(TENON_CONFIG="/no/such/file")).returncode, 2)

    def test_the_port_of_a_variable(self):
        port = free_port()
        with Server(port=None, env=environment(TENON_PORT=str(port), TENON_API_KEY="of-variable")) as server:
            self.assertEqual(server.port, port)
            self.assertEqual(server.get("/v1/models").status, 401)
            self.assertEqual(server.get("/v1/models", headers={"X-Api-Key": "of-variable"}).status, 200)
            self.assertNotIn("of-variable", server.text())
            self.assertEqual(server.stop(), 0)
        self.assertEqual(serving.run(env=environment(TENON_PORT="x")).returncode, 2)

    def test_no_log(self):
        with Server("--no-log-requests") as server:
            self.assertEqual(server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 1}}).status, 200)
            server.wait_quiet()
            self.assertEqual(server.stop(), 0)
            self.assertEqual(server.lines(), [])

    def test_metrics_without_vllm(self):
        with Server("--metrics-compat", "none") as server:
            names = set(server.metrics())
            self.assertIn("lorax_request_count", names)
            self.assertFalse([n for n in names if n.startswith("vllm:")])
            self.assertEqual(server.stop(), 0)


class Readiness(unittest.TestCase):
    def test_while_it_loads(self):
        port = free_port()
        seen = {}
        with Server("--preload-adapters", ",".join(serving.NAMES), port=port, wait=False) as server:
            def ask(method, path, body=None):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                try:
                    connection.request(method, path, body)
                    response = connection.getresponse()
                    return response.status, json.loads(response.read())
                except OSError:
                    return None, None
                finally:
                    connection.close()

            end = time.monotonic() + PATIENCE
            while seen.get("/ready", (None,))[0] != 200 and time.monotonic() < end:
                status, body = ask("GET", "/ready")
                if status == 503 and "loading" not in seen:
                    others = {path: ask(method, path, data) for method, path, data in [
                        ("GET", "/health", None), ("POST", "/generate", json.dumps({"inputs": KING, "parameters": {"max_new_tokens": 1}})),
                        ("POST", "/v1/completions", json.dumps({"prompt": KING, "max_tokens": 1})), ("GET", "/info", None)]}
                    if ask("GET", "/ready")[0] == 503:  # it was still loading
                        seen["loading"] = others
                seen["/ready"] = (status, body)
            self.assertEqual(seen["/ready"][0], 200)
            server.wait()
            self.assertEqual(server.stop(), 0)
        if "loading" not in seen:
            self.skipTest("it loads too fast to be seen loading")
        self.assertEqual(seen["loading"]["/health"][0], 200)  # alive while loading
        self.assertEqual(seen["loading"]["/generate"][0], 503)
        self.assertEqual(seen["loading"]["/generate"][1]["error_type"], "overloaded")
        self.assertEqual(seen["loading"]["/v1/completions"][0], 503)
        self.assertEqual(seen["loading"]["/v1/completions"][1]["error"]["type"], "server_error")
        self.assertEqual(seen["loading"]["/info"][0], 503)

    def test_ended_while_it_loads(self):
        for _ in range(3):
            with Server(wait=False) as server:
                eventually(lambda: "default model" in server.text(), "it says nothing")
                server.signal()
                self.assertIn(server.ended(), [0, -signal.SIGTERM])

    def test_probes(self):
        with Server("--api-key", "k") as server:
            for path in ["/health", "/", "/ping", "/ready", "/v1/health", "/startup"]:
                answer = server.get(path)
                self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/json"), path)
            self.assertEqual(server.ask("HEAD", "/health").status, 200)
            self.assertEqual(server.stop(), 0)


class End(unittest.TestCase):
    def test_what_runs_is_finished(self):
        for end, count in [(signal.SIGTERM, 3), (signal.SIGINT, 1)]:
            with Server("--shutdown-timeout", 300) as server:
                idle = server.connection()  # an idle kept-alive connection must not delay the shutdown
                self.assertEqual(server.ask("GET", "/health", connection=idle).status, 200)
                streams = flooded(server, count)
                server.signal(end)
                eventually(lambda: server.get("/ready").status == 503, "it stays ready")
                refused = server.post("/generate", {"inputs": KING})
                self.assertEqual((refused.status, refused.headers["connection"]), (503, "close"))
                self.assertEqual(refused.json()["error_type"], "overloaded")
                refused = server.post("/v1/completions", {"prompt": KING})
                self.assertEqual((refused.status, refused.headers["connection"]), (503, "close"))
                self.assertEqual(refused.json()["error"]["type"], "server_error")
                self.assertIn("retry-after", refused.headers)
                self.assertIsNone(server.process.poll())
                for stream in streams:
                    events = list(stream)
                    self.assertEqual(len(events), 999)
                    self.assertEqual(events[-1]["details"]["finish_reason"], "length")
                self.assertEqual(server.ended(), 0)
                idle.close()
                whole = [line for line in server.lines() if line["status"] == 200]
                self.assertEqual([line["tokens"] for line in whole], [1000] * count)

    def test_whole_answers_are_finished(self):
        with Server("--shutdown-timeout", 300) as server:
            connection = server.connection()
            connection.request("POST", "/generate", json.dumps(LONG))
            eventually(lambda: server.metric("tenon_requests_open") == 1)
            server.signal()
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            self.assertEqual(json.loads(response.read())["details"]["generated_tokens"], 1000)
            connection.close()
            self.assertEqual(server.ended(), 0)

    def test_what_takes_too_long_is_told_so(self):
        with Server("--shutdown-timeout", 0.3) as server:
            streams = flooded(server, 7)  # far longer than the timeout
            chat = {"prompt": KING, "max_tokens": 1000, "ignore_eos": True, "stream": True}
            openai = server.stream("/v1/completions", chat)
            next(openai)
            whole = server.connection()
            whole.request("POST", "/generate", json.dumps(LONG))
            eventually(lambda: server.metric("tenon_requests_open") == 9)
            server.signal()
            for stream in streams:  # iteration fails unless the stream ends in order
                events = list(stream)
                self.assertLess(len(events), 999)
                self.assertEqual(set(events[-1]), {"error", "error_type"})
                self.assertTrue(all("token" in e for e in events[:-1]))
            *_, error, done = openai
            self.assertEqual(done, "[DONE]")
            self.assertEqual(set(error["error"]), {"message", "type", "param", "code"})
            response = whole.getresponse()
            body = json.loads(response.read())
            self.assertIn(response.status, [500, 503])
            self.assertEqual(set(body), {"error", "error_type"})
            whole.close()
            self.assertEqual(server.ended(), 0)

    def test_the_second_signal_is_obeyed_at_once(self):
        with Server() as server:
            streams = flooded(server, 8)
            server.signal()
            eventually(lambda: "ending" in server.text(), "it does not say that it ends")
            server.signal()
            began = time.monotonic()
            status = server.ended()
            took = time.monotonic() - began
            self.assertNotEqual(status, 0)
            self.assertLess(took, 5)  # eight streams take longer, and the server would wait 30 s for them
            for stream in streams:
                stream.close()

    def test_a_hangup_ends_nothing(self):
        with Server() as server:
            server.signal(signal.SIGHUP)
            eventually(lambda: "no file to read again" in server.text(), "it does not say what it did")
            self.assertEqual(server.get("/ready").status, 200)
            self.assertEqual(server.stop(), 0)

    def test_no_request_no_wait(self):
        with Server() as server:
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 10)

    def test_killed_and_started_again(self):
        with Server() as server:
            streams = flooded(server, 2)
            server.kill()
            for stream in streams:
                stream.close()
            with Server(port=server.port) as again:
                self.assertEqual(again.port, server.port)
                answer = again.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 2}})
                self.assertEqual(answer.status, 200)
                self.assertEqual(again.stop(), 0)
            with Server(port=server.port) as third:  # the previous server's connections stay in the kernel for a while
                self.assertEqual(third.stop(), 0)

    def test_its_reader_goes_away(self):
        # An unread log is no reason to end.
        process = subprocess.Popen([serving.PROGRAM, "--port", "0", "--threads", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=environment())
        try:
            for line in process.stderr:
                if b"listening on" in line:
                    break
            process.stderr.close()
            port = int(line.rsplit(b":", 1)[1])
            for _ in range(3):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                connection.request("POST", "/generate", json.dumps({"inputs": KING, "parameters": {"max_new_tokens": 1}}))
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE), 0)
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    serving.main()
