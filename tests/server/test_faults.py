"""Faults of the server's environment: an unread log, too few threads, too little memory.
Also adapters that are loaded and unloaded while requests use them.

TENON_TEST_LOADS sets the number of loads in the race: 20000 in the test server.loads, 1,500 by default.
"""
import collections
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import serving
from serving import PATIENCE, Server, environment, eventually, free_port

KING = "The king said"
ASKED = {"inputs": KING, "parameters": {"max_new_tokens": 4}}
ADVICE = re.compile(r"(lower|ask for less by) .*--[a-z]")
LOADS = int(os.environ.get("TENON_TEST_LOADS", 1500))


# ---------------------------------------------------------------- an unread log

def fill(descriptor):
    """Fills a pipe until it accepts no more bytes."""
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(descriptor, b"x" * 4096):
            pass
    with contextlib.suppress(BlockingIOError):
        while os.write(descriptor, b"x"):
            pass
    os.set_blocking(descriptor, True)


class UnreadServer(Server):
    """Its standard error is a pipe that is read until the server listens (`full`: never)."""

    def __init__(self, *flags, full=False):
        self.reading, writing = os.pipe()
        if full:
            fill(writing)
        self.said = b""
        self.host, self.port, self.key = "127.0.0.1", free_port(), None
        self.process = subprocess.Popen([serving.PROGRAM, "--port", str(self.port), "--threads", "1", *map(str, flags)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing, env=environment())
        os.close(writing)
        if not full:
            self.read_until(b"listening on")

    def read_until(self, text):
        while text not in self.said:
            part = os.read(self.reading, 65536)
            if not part:
                raise AssertionError("it ended: %r" % self.said[-2000:])
            self.said += part

    def text(self):
        return self.said.decode("utf-8")

    def __exit__(self, *_):
        self.kill()
        os.close(self.reading)


def ask_many(server, count):
    """Sends `count` requests, a hundred at once per connection; each writes a log line. Returns the number of answers."""
    answered = 0
    for first in range(0, count, 100):
        with server.raw() as s:
            s.sendall(b"".join(b"GET /info HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n" % (b"%0100d" % (first + i)) for i in range(100)))
            answered += serving.receive_all(s).count(b"HTTP/1.1 200 OK\r\n")
    return answered


class UnreadLog(unittest.TestCase):
    def health_time(self, server):
        """The median of several requests, in seconds."""
        times = []
        for _ in range(21):
            began = time.monotonic()
            self.assertEqual(server.get("/health").status, 200)
            times.append(time.monotonic() - began)
        return statistics.median(times)

    def test_ten_thousand_requests_beside_a_log_that_nobody_reads(self):
        with UnreadServer("--shutdown-timeout", 2) as server:
            counts = serving.all_at_once([lambda: ask_many(server, 2500)] * 4)
            self.assertEqual(sum(counts), 10_000)
            # Repeats while other work slows the machine. A server that waits for its log never passes.
            eventually(lambda: self.health_time(server) < 0.05, "health takes more than 50 ms")
            self.assertEqual(server.post("/generate", ASKED).status, 200)
            lost = server.metric("tenon_log_lines_lost_total")
            self.assertGreater(lost, 0)
            self.assertLess(lost, 10_000)
            server.signal()
            began = time.monotonic()
            self.assertEqual(server.ended(), 0)
            self.assertLess(time.monotonic() - began, 2 + 10)  # 2 s to notice that the log is unread, the rest for a busy machine

    def test_the_log_goes_on_when_it_is_read_again(self):
        with UnreadServer() as server:
            self.assertEqual(ask_many(server, 10_000), 10_000)
            lost = server.metric("tenon_log_lines_lost_total")
            self.assertGreater(lost, 0)
            reader = threading.Thread(target=lambda: server.read_until(b'"id":"the-last"'), daemon=True)
            reader.start()

            def written():
                server.get("/info", headers={"X-Request-Id": "the-last"})
                reader.join(0.05)
                return not reader.is_alive()

            eventually(written, "no line comes")
            lines = [json.loads(line) for line in server.text().split("\n")[:-1] if not line.startswith("tenon: ")]  # every line is complete
            self.assertGreater(len(lines), 1000)
            server.signal()
            server.read_until(b"ending")
            self.assertEqual(server.ended(), 0)

    def test_signals_are_obeyed_while_a_request_runs(self):
        with UnreadServer("--shutdown-timeout", 1) as server:
            ask_many(server, 10_000)
            long = {"inputs": KING, "parameters": {"max_new_tokens": 1000, "ignore_eos_token": True}}
            streams = [server.stream("/generate_stream", long) for _ in range(8)]
            for stream in streams:
                next(stream)
            server.signal()
            self.assertEqual(server.ended(), 0)
            for stream in streams:
                stream.close()

    def test_it_starts_and_ends_where_not_even_its_first_word_is_read(self):
        with UnreadServer(full=True) as server:
            def ready():
                with contextlib.suppress(OSError):
                    return server.get("/ready").status == 200

            eventually(ready, "it does not become ready")
            self.assertEqual(server.post("/generate", ASKED).status, 200)
            server.signal()
            self.assertEqual(server.ended(), 0)
            server.host = None
        for flags, status in [(["--nothing"], 2), (["--model", "/no/such/folder"], 1)]:
            with UnreadServer(*flags, full=True) as server:
                self.assertEqual(server.ended(), status)


# ---------------------------------------------------------------- too few threads, too little memory

class Limited(Server):
    """A server under a limit that the command `prefix` sets. Waits until it listens or has ended."""

    def __init__(self, prefix, *flags):
        self.log_file = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen([*prefix, serving.PROGRAM, "--port", "0", *map(str, flags)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.log_file, env=environment())
        self.host, self.port, self.key = "127.0.0.1", 0, None
        eventually(lambda: self.listens() or self.process.poll() is not None, "it neither listens nor ends: " + self.text())

    def listens(self):
        found = re.search(r"^tenon: listening on http://.*:(\d+)$", self.text(), re.MULTILINE)
        if found:
            self.port = int(found.group(1))
        return bool(found)


class Refused(unittest.TestCase):
    @staticmethod
    def smallest(low, high, holds):
        """The smallest value at which holds() is true. It is false at `low` and true at `high`."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def serves(self, prefix, *flags):
        """Whether the server starts under the limit. If it starts, it must serve; otherwise it must name the setting to lower."""
        with Limited(prefix, *flags) as server:
            if server.listens():
                self.assertEqual(server.get("/health").status, 200)
                self.assertEqual(server.stop(), 0, server.text())
                return True
            self.assertEqual(server.process.returncode, 1, (prefix, server.text()))
            self.assertNotIn("terminate", server.text(), prefix)
            last = server.text().splitlines()[-1]
            self.assertTrue(last.startswith("tenon: ") and ADVICE.search(last), (prefix, server.text()))
            return False

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("setpriv"), "a limit of threads binds other users than root, and only root becomes one")
    def test_threads(self):
        stranger = str(61_000 + os.getpid() % 3000)  # a user without other processes
        setpriv = ["setpriv", "--reuid", stranger, "--regid", stranger, "--clear-groups"]
        if subprocess.run([*setpriv, serving.PROGRAM, "--version"], capture_output=True).returncode != 0:
            self.skipTest("other users cannot run " + serving.PROGRAM)

        def limit(threads):
            return [*setpriv, "bash", "-c", 'ulimit -u "$0" && exec "$@"', str(threads)]

        flags = ["--threads", 4, "--max-concurrent-requests", 8]  # about 50 threads
        enough = self.smallest(1, 100, lambda threads: self.serves(limit(threads), *flags))
        self.assertGreater(enough, 40)
        for threads in [1, 2, 3, 4, 5, enough - 6, enough - 5, enough - 4, enough - 3]:  # each kind of thread is refused once
            self.assertFalse(self.serves(limit(threads), *flags), threads)
        for threads in [enough - 2, enough - 1]:  # here it depends on how fast the system releases threads
            self.serves(limit(threads), *flags)
        # The printed advice helps.
        self.assertTrue(self.serves(limit(enough - 2), "--threads", 4, "--max-concurrent-requests", 3))

    @unittest.skipIf(serving.is_sanitized(), "sanitizers map terabytes")
    def test_memory(self):
        def limit(mebibytes):
            return ["bash", "-c", 'ulimit -v "$0" && exec "$@"', str(mebibytes << 10)]

        def runs(mebibytes):
            return subprocess.run([*limit(mebibytes), serving.PROGRAM, "--version"], capture_output=True).returncode == 0

        def serves(size):
            return self.serves(limit(size), "--threads", 2, "--max-concurrent-requests", 8)

        loads = self.smallest(1, 400, runs)  # enough for the program and its libraries only
        enough = self.smallest(loads, 16_000, serves)
        self.assertGreater(enough, loads)
        for i in range(8):
            self.assertFalse(serves(loads + (enough - loads) * i // 8))
        self.hammer(limit(enough + 64))  # room for one more malloc arena, which threads under contention create

    def hammer(self, prefix):
        """Requests that need more memory than there is are refused or cut off, and the process survives."""
        with Limited(prefix, "--threads", 2, "--max-concurrent-requests", 8) as server:
            self.assertTrue(server.listens(), server.text())
            large = json.dumps({"inputs": "x " * 900_000}).encode()

            def ask():
                for _ in range(8):
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        server.post("/generate", large)
                        server.post("/generate", ASKED)

            serving.all_at_once([ask] * 8)
            self.assertIsNone(server.process.poll(), server.text())
            eventually(lambda: server.post("/generate", ASKED).status == 200, "it does not recover")
            self.assertEqual(server.stop(), 0, server.text())


# ---------------------------------------------------------------- adapters that are loaded and unloaded

class Races(unittest.TestCase):
    def test_loads_and_unloads_beside_requests(self):
        names = {"one": "weather", "two": "shakespeare"}  # each name is shared by two of the four threads
        key = {"X-Api-Key": "k"}
        deadline = time.monotonic() + max(200, LOADS / 20)
        outcomes = collections.Counter()
        counted, over = threading.Lock(), threading.Event()

        with Server("--enable-adapter-admin", "--api-key", "k", "--no-log-requests") as server:
            server.key = "k"

            def generate(connection, name):
                asked = {"inputs": KING, "parameters": {"max_new_tokens": 6, "adapter_id": name}}
                return server.ask("POST", "/generate", asked, connection=connection)

            def note(what, status):
                with counted:
                    outcomes[what, status] += 1
                    if outcomes["load", 200] >= LOADS or time.monotonic() > deadline:
                        over.set()

            def come_and_go(i):
                name = list(names)[i % 2]
                connection = server.connection()
                while not over.is_set():
                    for action, body in [("load", {"lora_name": name, "lora_path": names[name]}), ("unload", {"lora_name": name})]:
                        note(action, server.ask("POST", "/v1/%s_lora_adapter" % action, body, key, connection).status)
                connection.close()

            def name_them(i):
                name = list(names)[i % 2]
                connection = server.connection()
                while not over.is_set():
                    answer = generate(connection, name)
                    note("generate", answer.status)
                    if answer.status == 200:
                        self.assertEqual(answer.json(), expected[name])
                connection.close()

            with contextlib.closing(server.connection()) as connection:
                expected = {name: generate(connection, path).json() for name, path in names.items()}
            resident = server.metric("tenon_adapters_resident")
            memory = server.metric("process_resident_memory_bytes")
            works = [lambda i=i: come_and_go(i) for i in range(4)] + [lambda i=i: name_them(i) for i in range(2)]
            began = time.monotonic()
            threads = [threading.Thread(target=work, daemon=True) for work in works]
            failures = []
            threading.excepthook = lambda failed: (failures.append(failed.exc_value), over.set())
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(300, LOADS / 10))
                self.assertFalse(thread.is_alive(), "a request got no answer")
            self.assertEqual(failures, [])
            took = time.monotonic() - began

            # 400: another thread has loaded it. 404: another thread has unloaded it, before or meanwhile. 424: no such
            # name.
            self.assertLessEqual(set(outcomes), {("load", 200), ("load", 400), ("load", 404), ("unload", 200), ("unload", 404), ("generate", 200), ("generate", 424)})
            self.assertGreaterEqual(outcomes["load", 200], LOADS, "it took too long")
            self.assertGreater(outcomes["generate", 200], 0)
            for name in names:
                server.post("/v1/unload_lora_adapter", {"lora_name": name})
            quiet = server.wait_quiet()
            self.assertEqual(quiet["tenon_adapters_resident"], resident)
            self.assertEqual(quiet["tenon_adapter_requests_waiting"], 0)
            if not serving.is_sanitized():
                self.assertLess(quiet["process_resident_memory_bytes"], memory + (64 << 20))
            print("%d loads in %.0f s: %s" % (outcomes["load", 200], took, dict(sorted(outcomes.items()))))
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    serving.main()
