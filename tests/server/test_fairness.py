"""A client with many requests does not starve a client with few."""
import http.client
import json
import statistics
import threading
import time
import unittest

import serving
from serving import PATIENCE, Server, ServerTest

KEYS = ["hoarder", "victim"]


def first_token(server, key, source=None):
    """Seconds until the first token of a short stream."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=2 * PATIENCE,
                                            source_address=(source, 0) if source else None)
    begin = time.monotonic()
    body = {"prompt": "The king said", "max_tokens": 4, "temperature": 0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Authorization": "Bearer " + key} if key else {})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    response.read1(1)
    taken = time.monotonic() - begin
    response.read()
    response.close()
    connection.close()
    return taken


class Hoard:
    """8 concurrent requests of 128 prompts each, repeated until the block ends."""

    def __init__(self, server, key, max_tokens):
        self.server, self.key = server, key
        self.body = json.dumps({"prompt": ["Chapter %d. It was" % i for i in range(128)], "max_tokens": max_tokens,
                                "temperature": 0, "ignore_eos": True})
        self.statuses, self.threads, self.ending = [], [], threading.Event()

    def hoard(self):
        while not self.ending.is_set():
            self.one()

    def one(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=10 * PATIENCE)
        try:
            connection.request("POST", "/v1/completions", self.body, {"Authorization": "Bearer " + self.key} if self.key else {})
            response = connection.getresponse()
            response.read()
            self.statuses.append(response.status)
        except (OSError, http.client.HTTPException):
            self.statuses.append(0)
        finally:
            connection.close()

    def __enter__(self):
        self.threads = [threading.Thread(target=self.hoard, daemon=True) for _ in range(8)]
        for thread in self.threads:
            thread.start()
        serving.eventually(lambda: self.server.metric("vllm:num_requests_running") > 0 and
                           self.server.metric("vllm:num_requests_waiting") > 500, "the hoard is not there")
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(10 * PATIENCE)


class Fairness(unittest.TestCase):
    def check(self, server, hoarder, victim, source=None, max_tokens=24, requests=3):
        for _ in range(2):
            first_token(server, victim, source)
        alone = statistics.median(first_token(server, victim, source) for _ in range(5))
        with Hoard(server, hoarder, max_tokens) as hoard:
            beside = [first_token(server, victim, source) for _ in range(requests)]
            waiting = server.metric("vllm:num_requests_waiting")
        self.assertEqual(set(hoard.statuses), {200})  # no request was refused
        self.assertGreater(waiting, 100)
        self.assertLess(statistics.median(beside), 2 * alone + 1, (alone, beside))

    def test_by_api_key(self):
        flags = [flag for key in KEYS for flag in ("--api-key", key)]
        with Server(*flags) as server:
            server.key = "victim"
            self.check(server, *KEYS)

    def test_by_address_where_there_are_no_keys(self):
        with Server() as server:
            self.check(server, None, None, source="127.0.0.2")

    def test_short_requests_of_the_same_client(self):
        with Server() as server:
            self.check(server, None, None)

    def test_first_come_first_served_would_starve_it(self):
        """Counter-check: the test fails under first come, first served."""
        with Server("--scheduler", "continuous") as server:
            with self.assertRaisesRegex(AssertionError, "not less than"):
                self.check(server, None, None, source="127.0.0.2", max_tokens=48, requests=1)


class Work(ServerTest):
    FLAGS = ["--max-concurrent-sequences", 8, "--max-concurrent-tokens", 2000]
    LONG = {"prompt": ["The king said"] * 6, "max_tokens": 100, "temperature": 0, "ignore_eos": True, "stream": True}

    def test_sequences_and_tokens_are_bounded(self):
        first = self.server.stream("/v1/completions", self.LONG)
        next(first)
        answer = self.server.post("/v1/completions", {"prompt": "a", "n": 3, "max_tokens": 1})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (429, "overloaded"))
        self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60, answer)
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status, 200)
        first.close()
        self.server.wait_quiet()
        second = self.server.stream("/v1/completions", self.LONG | {"prompt": ["The king said"] * 3, "max_tokens": 600})
        next(second)
        answer = self.server.post("/v1/completions", {"prompt": "a", "max_tokens": 600})
        self.assertEqual(answer.status, 429, answer)
        second.close()


class DefaultLength(unittest.TestCase):
    def length(self, *flags):
        with Server(*flags) as server:
            answer = server.post("/generate", {"inputs": "The king said",
                                               "parameters": {"details": True, "ignore_eos_token": True}})
            return answer.json()["details"]["generated_tokens"]

    def test_a_client_that_forgets_the_length_gets_a_bounded_one(self):
        self.assertEqual(self.length(), 100)
        self.assertEqual(self.length("--default-max-new-tokens", 7), 7)
        self.assertGreater(self.length("--default-max-new-tokens", 0), 400)  # the rest of the context


if __name__ == "__main__":
    serving.main()
