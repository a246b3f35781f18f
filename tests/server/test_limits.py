"""Limits of one client and of all together: overload, slow readers, disconnects, time, memory."""
import contextlib
import json
import random
import signal
import socket
import struct
import time
import unittest

import serving
from serving import NAMES, Server, ServerTest, all_at_once, eventually

KING = "The king said"
SHORT = {"inputs": KING, "parameters": {"max_new_tokens": 4}}
LONG = {"inputs": KING, "parameters": {"max_new_tokens": 1000, "ignore_eos_token": True}}


class Overload(ServerTest):
    FLAGS = ["--max-concurrent-requests", 2]

    def body(self, i):
        parameters = {"max_new_tokens": 60, "ignore_eos_token": True, "seed": i, "do_sample": True}
        return {"inputs": KING, "parameters": parameters | ({"adapter_id": NAMES[i % 3]} if i % 2 else {})}

    def test_those_accepted_are_answered_and_others_told_so_at_once(self):
        alone = [self.server.post("/generate", self.body(i)).json() for i in range(12)]
        accepted = 0
        for _ in range(3):
            together = all_at_once([lambda i=i: self.server.post("/generate", self.body(i)) for i in range(12)])
            for i, answer in enumerate(together):
                if answer.status == 200:
                    self.assertEqual(answer.json(), alone[i])
                    accepted += 1
                else:
                    self.assertEqual((answer.status, answer.json()["error_type"]), (429, "overloaded"), answer)
                    self.assertEqual(set(answer.json()), {"error", "error_type"})
                    self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60, answer)
        self.assertGreaterEqual(accepted, 3)
        self.assertLess(accepted, 36)
        self.assertEqual(self.server.post("/generate", self.body(0)).json(), alone[0])  # afterwards the server is as before

    def test_in_both_dialects_and_in_streams(self):
        streams = [self.server.stream("/generate_stream", LONG) for _ in range(2)]
        for stream in streams:
            next(stream)
        for path in ["/generate", "/generate_stream", "/"]:
            answer = self.server.post(path, SHORT)
            self.assertEqual((answer.status, answer.json()["error_type"]), (429, "overloaded"))
            self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60, answer)
        for path, body in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions",
                                                                   {"messages": [{"role": "user", "content": "a"}]}),
                           ("/v1/completions", {"prompt": KING, "stream": True})]:
            answer = self.server.post(path, body)
            error = answer.json()["error"]
            self.assertEqual((answer.status, error["type"], error["code"]), (429, "rate_limit_error", "overloaded"))
            self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60, answer)
        for path in ["/health", "/ready", "/v1/models", "/metrics", "/info"]:  # monitoring routes are always answered
            self.assertEqual(self.server.get(path).status, 200)
        for stream in streams:
            stream.close()
        self.server.wait_quiet()
        eventually(lambda: self.server.post("/generate", SHORT).status == 200, "the places are not given back")


class Burst(ServerTest):
    FLAGS = ["--max-concurrent-requests", 16, "--batch", 16, "--max-n", 16]

    def test_clients_that_are_refused_together_wait_for_different_times(self):
        """How the waits follow from the load is a test of Admission, with a clock of its own."""
        body = json.dumps({"prompt": KING, "max_tokens": 1000, "n": 16, "ignore_eos": True}).encode()
        holders = [self.server.raw() for _ in range(16)]
        for holder in holders:
            holder.sendall(serving.post_bytes("/v1/completions", body))
        eventually(lambda: self.server.metric("tenon_requests_open") == 16)
        time.sleep(1)  # a request takes at least four times the mean age: the 16 places are 0.25 s apart or more
        answers = all_at_once([lambda: self.server.post("/v1/completions", {"prompt": KING, "max_tokens": 1})] * 24)
        self.assertEqual({answer.status for answer in answers}, {429})
        waits = [int(answer.headers["retry-after"]) for answer in answers]
        self.assertTrue(all(1 <= wait <= 60 for wait in waits), waits)
        self.assertGreaterEqual(len(set(waits)), 3, waits)
        for holder in holders:
            holder.close()
        self.server.wait_quiet()
        self.assertEqual(self.server.post("/v1/completions", {"prompt": KING, "max_tokens": 1}).status, 200)


class Crowd(ServerTest):
    CONNECTIONS = 700

    def test_connections_at_once_wait_to_be_accepted(self):
        """The kernel of a client tries again after 1 s where the line of a listening socket is full."""
        with open("/proc/sys/net/core/somaxconn", encoding="ascii") as file:
            if int(file.read()) < self.CONNECTIONS:
                self.skipTest("net.core.somaxconn is below %d" % self.CONNECTIONS)
        self.server.signal(signal.SIGSTOP)
        try:
            with contextlib.ExitStack() as open_ones:
                for _ in range(self.CONNECTIONS):
                    open_ones.enter_context(socket.create_connection(("127.0.0.1", self.server.port), timeout=0.9))
        finally:
            self.server.signal(signal.SIGCONT)
        self.generate(max_new_tokens=2)


class Bodies(ServerTest):
    FLAGS = ["--payload-limit", 4096, "--header-timeout", 0.5, "--body-timeout", 0.7, "--idle-timeout", 0.5]

    def answer_to(self, *pieces):
        """All bytes until the connection ends, and the time that took."""
        began = time.monotonic()
        with self.server.raw() as s:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in pieces:
                    s.sendall(piece)
            content = serving.receive_all(s)
        return content, time.monotonic() - began

    def test_larger_than_the_limit(self):
        fits = json.dumps({"inputs": KING, "parameters": {"max_new_tokens": 1}, "user": ""})
        fits = fits[:-2] + "x" * (4096 - len(fits)) + fits[-2:]
        self.assertEqual(len(fits), 4096)
        self.assertEqual(self.server.post("/generate", fits).status, 200)
        for body in [" " + fits, "x" * 100_000, "x" * 3_000_000]:
            answer = self.server.post("/generate", body)
            self.assertEqual((answer.status, answer.json()["error_type"]), (413, "validation"))
            answer = self.server.post("/v1/completions", body)
            self.assertEqual((answer.status, answer.json()["error"]["type"]), (413, "invalid_request_error"))

    def test_larger_in_chunks(self):
        head = b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for pieces in [[b"1000\r\n" + b"x" * 4096 + b"\r\n"] * 3 + [b"0\r\n\r\n"], [b"1\r\nx\r\n"] * 5000, [b"ffffffffffffffff\r\nxx"],
                       [b"-1\r\n"],
                       [b"7fffffff\r\n"]]:
            content, _ = self.answer_to(head, b"".join(pieces))
            self.assertRegex(content, b"^HTTP/1.1 4(00|13|22) ", pieces[0])
        body = json.dumps(SHORT).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7)) + b"0\r\n\r\n"
        content, _ = self.answer_to(head.replace(b"Host: x", b"Host: x\r\nConnection: close"), chunks)
        self.assertTrue(content.startswith(b"HTTP/1.1 200 "), content)

    def test_heads_that_nobody_should_send(self):
        body = json.dumps(SHORT).encode()
        for lines in [["Transfer-Encoding: chunked", "Content-Length: 5"], ["Content-Length: -1"],
                      ["Content-Length: 5", "Content-Length: 6"],
                      ["Content-Length: 99999999999999999999"], ["Content-Length: 0x10"], ["no colon"],
                      ["A: " + "x" * 40_000], ["B%d: x" % i for i in range(101)], ["Transfer-Encoding : chunked"]]:
            content, _ = self.answer_to("\r\n".join(["POST /generate HTTP/1.1", "Host: x", *lines]).encode() + b"\r\n\r\n", body)
            self.assertRegex(content, b"^HTTP/1.1 4\\d\\d ", lines[0][:40])
            self.assertNotIn(b"generated_text", content)
        for line in [b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"GET\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]:
            content, _ = self.answer_to(line)
            self.assertFalse(content and not content.startswith(b"HTTP/1.1 4") and not content.startswith(b"HTTP/1.1 505"), content[:100])

    def test_an_unknown_transfer_encoding(self):
        content, _ = self.answer_to(b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
        self.assertRegex(content, b"^HTTP/1.1 (400|415|501) ")
        self.assertNotIn(b"internal error", content)

    def test_slow_heads_and_bodies_are_closed(self):
        content, took = self.answer_to(b"POST /generate HTTP/1.1\r\nHost:")
        self.assertTrue(content == b"" or content.startswith(b"HTTP/1.1 408 "), content)
        self.assertLess(took, 20)
        content, took = self.answer_to(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        self.assertTrue(content == b"" or content.startswith(b"HTTP/1.1 408 "), content)
        self.assertLess(took, 20)

    def test_a_byte_now_and_then_does_not_help(self):
        began = time.monotonic()
        with self.server.raw() as s:
            s.settimeout(0.1)
            content, closed = b"", False
            for byte in (b"POST /generate HTTP/1.1\r\nX: " + b"x" * 1000):
                try:
                    s.sendall(bytes([byte]))
                    piece = s.recv(4096)
                    content += piece
                    closed = not piece
                except socket.timeout:
                    continue
                except OSError:
                    closed = True
                if closed:
                    break
        self.assertTrue(closed, "it waits on")  # 1,000 bytes at 10 per second: the deadline is for the whole header
        self.assertLess(time.monotonic() - began, 30)

    def test_idle_connections_are_closed(self):
        with self.server.raw() as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            content = serving.receive_all(s)
        self.assertTrue(content.startswith(b"HTTP/1.1 200 "))

    def test_several_requests_in_one_piece(self):
        body = json.dumps(SHORT).encode()
        with self.server.raw() as s:
            s.sendall(serving.post_bytes("/generate", body) * 2 + serving.post_bytes("/generate", body, "Connection: close"))
            content = serving.receive_all(s)
        self.assertEqual(content.count(b"HTTP/1.1 200 "), 3)
        self.assertEqual(content.count(b"generated_text"), 3)


class Leavers(ServerTest):
    """Clients that disconnect at any point."""

    def leave(self, random_place):
        kind = random_place.randrange(7)
        body = json.dumps({"inputs": KING + " " * random_place.randrange(5), "parameters": {
            "max_new_tokens": 300, "ignore_eos_token": True, "adapter_id": random_place.choice([None, *NAMES])}}).encode()
        path = random_place.choice(["/generate", "/generate_stream"])
        whole = serving.post_bytes(path, body)
        with self.server.raw() as s:
            with contextlib.suppress(OSError):
                if kind == 1:
                    s.sendall(whole[:random_place.randrange(1, 40)])
                elif kind == 2:
                    s.sendall(whole[:len(whole) - random_place.randrange(1, len(body))])
                elif kind >= 3:
                    s.sendall(whole)
                if kind >= 5:
                    s.settimeout(random_place.random() * 0.3)
                    s.recv(random_place.randrange(1, 4000))
                elif kind == 4:
                    time.sleep(random_place.random() * 0.1)
            if random_place.random() < 0.5:  # a reset instead of an orderly end
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return kind

    def work(self):
        """Brings the server into its steady state before its resources are measured."""
        for name in [None, *NAMES]:
            for _ in range(2):
                self.generate(max_new_tokens=16, adapter_id=name)

    def test_a_hundred_leave_nothing_behind(self):
        self.work()
        quiet = self.server.wait_quiet()
        random_places = random.Random(64)
        for _ in range(5):
            seeds = [random.Random(random_places.random()) for _ in range(20)]
            kinds = all_at_once([lambda r=r: self.leave(r) for r in seeds])
            self.assertGreater(len(set(kinds)), 3)
        now = self.server.wait_quiet()
        self.assertEqual((now['vllm:num_requests_running{model_name="tales"}'], now["lorax_queue_length"]), (0, 0))
        self.assertGreater(self.server.failures(now).get("dropped", 0), 10)
        self.work()
        self.server.wait_quiet()
        eventually(lambda: self.server.metric("process_open_fds") <= quiet["process_open_fds"],
                   lambda: "files are open: %s, before %s" % (self.server.metric("process_open_fds"), quiet["process_open_fds"]))
        self.assertEqual(self.server.metric("process_threads"), quiet["process_threads"])
        # The disconnected requests had begun: their computed tokens may stay in the prefix cache, but none is in use.
        self.assertEqual(self.server.metric("tenon_cache_used_tokens"), quiet["tenon_cache_used_tokens"])

    def test_they_free_the_engine_soon(self):
        before = self.server.wait_quiet()["tenon_tokens_total"]
        for path in ["/generate_stream", "/generate"]:
            with self.server.raw() as s:
                s.sendall(serving.post_bytes(path, json.dumps(LONG).encode()))
                eventually(lambda: self.server.metric("tenon_tokens_total") > before)
            after = self.server.wait_quiet()["tenon_tokens_total"]
            self.assertLess(after - before, 900)  # of 1,000: the request did not run to its end
            before = after
        eventually(lambda: [line for line in self.server.lines() if line.get("reason") == "dropped"])

    def test_one_that_ends_its_half_has_gone(self):
        with self.server.raw() as s:
            s.sendall(serving.post_bytes("/generate", json.dumps(LONG).encode()))
            s.shutdown(socket.SHUT_WR)
            serving.receive_all(s)
        self.server.wait_quiet()

    def test_the_others_are_answered_as_always(self):
        alone = self.generate(max_new_tokens=60, details=True)
        random_places = random.Random(1)

        def leave_often():
            for _ in range(5):
                self.leave(random_places)

        results = all_at_once([leave_often, leave_often] + [lambda: self.generate(max_new_tokens=60, details=True)] * 4)
        self.assertEqual(results[2:], [alone] * 4)
        self.server.wait_quiet()

    def test_answers_that_list_much_are_few(self):
        large = {"prompt": [KING] * 2, "n": 5, "max_tokens": 1000, "logprobs": 5, "ignore_eos": True, "stream": True, "temperature": 1}
        small = {"prompt": KING, "max_tokens": 4, "logprobs": 5}
        streams = [self.server.stream("/v1/completions", large) for _ in range(4)]  # 60,000 logprobs each
        self.assertEqual([s.status for s in streams], [200] * 4)
        refused = self.server.post("/v1/completions", large)
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "overloaded"))
        self.assertIn("`logprobs`", refused.json()["error"]["message"])
        streams[0].close()
        self.assertEqual(self.server.post("/v1/completions", small).status, 200)
        for stream in streams[1:]:
            stream.close()
        self.server.wait_quiet()
        for stream in [self.server.stream("/v1/completions", large) for _ in range(4)]:  # all of it was released
            self.assertEqual(stream.status, 200)
            stream.close()
        self.server.wait_quiet()


class Readers(ServerTest):
    FLAGS = ["--write-timeout", 1]

    def test_one_who_never_reads_blocks_nobody(self):
        deaf = []
        for _ in range(3):
            s = self.server.raw(receive_buffer=2048)
            asked = {"inputs": KING, "parameters": {"max_new_tokens": 800, "ignore_eos_token": True, "return_k_alternatives": 20,
                                                    "details": True}}
            s.sendall(serving.post_bytes("/generate_stream", json.dumps(asked).encode()))
            deaf.append(s)
        try:
            for _ in range(5):
                self.assertEqual(self.server.post("/generate", SHORT).status, 200)
                self.assertEqual(self.server.get("/health").status, 200)
            self.server.wait_quiet()  # although the sockets are still unread
        finally:
            for s in deaf:
                s.close()
        self.assertEqual(self.server.post("/generate", SHORT).status, 200)

    def test_one_who_never_reads_is_let_go(self):
        quiet = self.server.wait_quiet()["process_open_fds"]
        body = json.dumps({"inputs": "a b " * 380}).encode()
        whole = len(self.server.post("/tokenize", body).body)
        self.assertGreater(200 * whole, 6_000_000)  # more than sockets buffer: 4 MiB to send, and a little to receive
        deaf = [self.server.raw(receive_buffer=2048) for _ in range(3)]
        try:
            for s in deaf:
                s.sendall(200 * serving.post_bytes("/tokenize", body))
            for s in deaf:
                s.recv(1, socket.MSG_PEEK)  # the answer has begun
            self.assertEqual(self.server.post("/generate", SHORT).status, 200)
            # The server closes them after --write-timeout and before --idle-timeout; these sockets are still open.
            eventually(lambda: self.server.metric("process_open_fds") <= quiet, "their connections are kept")
            for s in deaf:
                content = serving.receive_all(s)
                self.assertLess(len(content), 200 * whole, "it was read after all")
        finally:
            for s in deaf:
                s.close()

    def test_a_slow_reader_gets_all(self):
        with self.server.raw(receive_buffer=2048) as s:
            s.sendall(serving.post_bytes("/generate_stream", json.dumps({"inputs": KING,
                                                                         "parameters": {"max_new_tokens": 100,
                                                                                        "ignore_eos_token": True}}).encode(),
                                         "Connection: close"))
            content = b""
            while piece := s.recv(700):
                content += piece
                time.sleep(0.002)
        self.assertTrue(content.endswith(b"0\r\n\r\n"))
        self.assertEqual(content.count(b"data: "), 100)


class Time(ServerTest):
    FLAGS = ["--request-timeout", 0.4]

    def crowd(self):
        """More work than can end in time."""
        streams = [self.server.stream("/generate_stream", LONG) for _ in range(12)]
        return [s for s in streams if s.status == 200], streams

    def test_a_status_where_nothing_has_been_sent(self):
        _, streams = self.crowd()
        answer = self.server.post("/generate", LONG)
        self.assertEqual((answer.status, answer.json()["error_type"]), (504, "timeout"))
        answer = self.server.post("/v1/completions", {"prompt": KING, "max_tokens": 1000, "ignore_eos": True})
        self.assertEqual((answer.status, answer.json()["error"]["type"]), (504, "server_error"))
        for stream in streams:
            stream.close()
        self.server.wait_quiet()

    def test_an_event_where_something_has(self):
        for _ in range(10):  # on a slow machine the time may be over before anything is sent
            begun, streams = self.crowd()
            if begun:
                break
        self.assertTrue(begun)
        for stream in begun:
            events = list(stream)  # iteration fails unless the stream ends in order
            self.assertEqual(set(events[-1]), {"error", "error_type"})
            self.assertEqual(events[-1]["error_type"], "timeout")
            self.assertTrue(all("token" in e for e in events[:-1]))
        for stream in streams:
            stream.close()
        self.server.wait_quiet()
        self.assertGreaterEqual(self.server.failures()["incomplete"], len(begun))

    def test_short_ones_are_in_time(self):
        eventually(lambda: self.server.post("/generate", SHORT).status == 200)


class Counters(ServerTest):
    FLAGS = ["--max-concurrent-requests", 3, "--api-key", "k"]

    def test_they_add_up(self):
        self.server.key = "k"
        good = [("/generate", SHORT), ("/", SHORT),
                ("/v1/completions", {"prompt": KING, "max_tokens": 4, "temperature": 0, "model": "weather"}),
                ("/v1/completions", {"prompt": [KING, KING], "n": 2, "max_tokens": 2, "ignore_eos": True})]
        bad = [("/generate", {"inputs": ""}), ("/generate", "{"), ("/v1/completions", {"prompt": KING, "n": 0})]
        unknown = [("/generate", {"inputs": KING, "parameters": {"adapter_id": "nobody"}}),
                   ("/v1/completions", {"prompt": KING, "model": "nobody"})]
        for path, body in good + bad + unknown:
            self.server.post(path, body)
        with self.server.stream("/generate_stream", SHORT) as stream:
            list(stream)
        with self.server.raw() as s:
            s.sendall(serving.post_bytes("/generate_stream", json.dumps(LONG).encode(), "X-Api-Key: k"))
            s.recv(1)
        self.server.wait_quiet()
        eventually(lambda: self.server.failures().get("dropped"))
        streams = [self.server.stream("/generate_stream", LONG) for _ in range(3)]
        for each in streams:
            next(each)
        self.assertEqual(self.server.post("/generate", SHORT).status, 429)
        during = self.server.metrics()
        self.assertEqual((during["tenon_requests_open"], during['vllm:num_requests_running{model_name="tales"}']), (3, 3))
        for each in streams:
            each.close()
        self.server.wait_quiet()
        eventually(lambda: self.server.failures().get("dropped") == 4)
        now = self.server.metrics()
        self.assertEqual(self.server.failures(now), {"validation": 3, "download_adapter": 2, "dropped": 4, "overloaded": 1})
        self.assertEqual(now["lorax_request_success"], 5)
        self.assertEqual(now["lorax_request_count"], 5 + 3 + 2 + 4 + 1)
        self.assertEqual(now["lorax_request_duration_count"], 5)
        self.assertEqual(now['lorax_request_duration_bucket{le="+Inf"}'], 5)
        self.assertEqual(now["lorax_request_generated_tokens_sum"], 4 + 4 + 4 + 8 + 4)
        self.assertEqual(now["lorax_request_input_length_sum"], 3 + 3 + 3 + 6 + 3)
        self.assertEqual(now['vllm:generation_tokens_total{model_name="tales"}'], 24)
        self.assertEqual(now['tenon_adapter_requests_total{adapter="weather"}'], 1)
        self.assertEqual(sum(v for k, v in now.items() if k.startswith("vllm:request_success_total")), 5)
        lines = self.server.lines()  # requests for metrics write no line
        self.assertEqual(len(lines), 15)
        statuses = sorted(line["status"] for line in lines)
        self.assertEqual(statuses, [200] * 5 + [400] * 2 + [404, 422, 424, 429] + [499] * 4)

    def test_the_form_of_it(self):
        self.server.key = "k"
        answer = self.server.get("/metrics")
        self.assertEqual(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        lines = answer.text().splitlines()
        helps = [line.split()[2] for line in lines if line.startswith("# HELP ")]
        types = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        self.assertEqual(helps, types)
        self.assertEqual(len(set(helps)), len(helps))
        for name in ["lorax_request_count", "lorax_request_success", "lorax_request_failure", "lorax_request_duration",
                     "lorax_request_validation_duration",
                     "lorax_request_queue_duration", "lorax_request_inference_duration", "lorax_request_mean_time_per_token_duration",
                     "lorax_request_input_length", "lorax_request_max_new_tokens", "lorax_request_generated_tokens",
                     "lorax_batch_next_size",
                     "lorax_queue_length", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
                     "vllm:lora_requests_info",
                     "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
                     "vllm:prefix_cache_queries_total",
                     "vllm:prefix_cache_hits_total", "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
                     "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
                     "vllm:request_decode_time_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens"]:
            self.assertIn(name, helps)
        samples = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
        self.assertEqual(len(set(samples)), len(samples))


class Log(ServerTest):
    def test_a_line_a_request_and_no_text_of_it(self):
        secret, said = "Rumpelstiltskin", {}
        body = {"inputs": secret, "parameters": {"max_new_tokens": 12, "api_token": "hf_" + secret, "adapter_id": "weather",
                                                 "stop": [secret]}}
        for i, (path, each) in enumerate([("/generate", body), ("/generate_stream", body),
                                          ("/v1/completions", {"prompt": secret, "max_tokens": 3}),
                                          ("/generate", {"inputs": secret, "parameters": {"adapter_id": secret + "/../x"}}),
                                          ("/generate", '{"inputs": "' + secret),
                                          ("/v1/completions", {"prompt": secret, "user": secret, "n": 99})]):
            answer = self.server.post(path + "?key=" + secret, each, headers={"X-Request-Id": "log-%d" % i, "User-Agent": secret})
            said["log-%d" % i] = (path, answer.status)
        for name, (path, status) in said.items():
            line = self.server.line(name)
            self.assertEqual((line["status"], line["route"], line["method"]), (status, path, "POST"))
            self.assertRegex(line["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertGreater(line["ms"], 0)
        first = self.server.line("log-0")
        self.assertEqual((first["adapter"], first["tokens"], first["reason"]), ("weather", 12, "length"))
        self.assertLessEqual(first["ttft_ms"], first["ms"])
        self.assertEqual(len(self.server.lines()), 6)
        text = self.server.text()
        self.assertNotIn(secret, text)
        self.assertTrue(text.isascii())

    def test_no_lines_of_others_making(self):
        before = len(self.server.lines())
        for name in ["a\nb", "a\u2028b", '"}{"', "\\"]:
            self.server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": name}})
        eventually(lambda: len(self.server.lines()) == before + 4)


class Memory(ServerTest):
    @unittest.skipIf(serving.is_sanitized(), "sanitizers keep what was freed")
    def test_it_is_flat(self):
        bodies = [json.dumps({"inputs": "%s %d" % (KING, i),
                              "parameters": {"max_new_tokens": 1} | ({"adapter_id": NAMES[i % 3]} if i % 4 == 0 else {})})
                  for i in range(40)]
        connection, done = self.server.connection(), 0

        def ask(count):
            nonlocal done
            for _ in range(count):
                answer = self.server.post("/generate" if done % 3 else "/generate_stream", bodies[done % 40], connection=connection)
                self.assertEqual(answer.status, 200)
                done += 1

        ask(300)
        after_300 = self.server.wait_quiet()
        ask(2700)
        after_3000 = self.server.wait_quiet()
        connection.close()
        grown = after_3000["process_resident_memory_bytes"] - after_300["process_resident_memory_bytes"]
        self.assertLess(grown, 6 * 2 ** 20)
        self.assertEqual(after_3000["lorax_request_success"], 3000)
        self.assertEqual(after_3000["process_threads"], after_300["process_threads"])


if __name__ == "__main__":
    serving.main()
