"""Shared by the tests of the server: start it, stop it, send requests, and read its streams, log and metrics.

TENON_SERVE in the environment, or the first argument, names the server.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "examples" / "models" / "tales" / "adapters"
NAMES = ["characters", "shakespeare", "weather"]
# Time limit in seconds for waits that usually take a tenth of a second, for busy machines. A thousand tokens take a
# minute under ThreadSanitizer.
PATIENCE = float(os.environ.get("TENON_TEST_PATIENCE", 60))


def program_path():
    named = os.environ.get("TENON_SERVE") or (sys.argv.pop(1) if len(sys.argv) > 1 else None)
    if not named:
        sys.exit("name the server: %s PROGRAM, or TENON_SERVE=PROGRAM" % sys.argv[0])
    return os.path.abspath(named)


PROGRAM = program_path()


def is_sanitized():
    """Whether the server is built with a sanitizer, which keeps freed memory."""
    content = pathlib.Path(PROGRAM).read_bytes()
    return any(name in content for name in [b"__asan_init", b"__tsan_init", b"__msan_init"])


def environment(**more):
    """The environment without the TENON_* settings of the person who runs the tests, plus `more`."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TENON_")} | more


def run(*flags, env=None):
    """Runs a server that ends by itself. Returns a CompletedProcess with text in stdout and stderr."""
    return subprocess.run([PROGRAM, *map(str, flags)], capture_output=True, encoding="utf-8", timeout=PATIENCE,
                          env=env or environment())


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def eventually(check, message="did not come true", seconds=PATIENCE):
    """The first true value of check()."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(message() if callable(message) else message)
        time.sleep(0.02)


def all_at_once(works):
    """Runs the functions in one thread each, started together. Returns their results and raises their exceptions."""
    results, barrier = [None] * len(works), threading.Barrier(len(works))

    def one(i):
        barrier.wait()
        try:
            results[i] = (True, works[i]())
        except BaseException as error:
            results[i] = (False, error)

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    for each in results:
        if each is None:
            raise AssertionError("a request got no answer in time")
        if not each[0]:
            raise each[1]
    return [value for _, value in results]


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.headers = {k.lower(): v for k, v in response.getheaders()}

    def json(self):
        if self.headers.get("content-type") != "application/json":
            raise AssertionError("no JSON: %s, %r" % (self.headers, self.body[:200]))

        def refuse(word):
            raise AssertionError(word + " is no JSON")

        return json.loads(self.body.decode("utf-8"), parse_constant=refuse)

    def text(self):
        return self.body.decode("utf-8")

    def __repr__(self):
        return "%d %r" % (self.status, self.body[:300])


def data_of(event):
    """The data of one event (bytes without the blank line); None for a comment. An event has one line of data and nothing else."""
    if event.startswith(b":"):
        return None
    if not event.startswith(b"data: ") or b"\n" in event or b"\r" in event:
        raise AssertionError("an event must be one line of data: %r" % event)
    return event[6:].decode("utf-8")


class Stream:
    """A streamed answer: an iterator over the data of its events, as JSON or as the text [DONE]."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.waiting = b""

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            while b"\n\n" not in self.waiting:
                piece = self.response.read1(65536)
                if not piece:
                    if self.waiting:
                        raise AssertionError("the stream ends within an event: %r" % self.waiting)
                    self.close()
                    raise StopIteration
                self.waiting += piece
            event, self.waiting = self.waiting.split(b"\n\n", 1)
            data = data_of(event)
            if data is not None:
                return data if data == "[DONE]" else json.loads(data)

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return body.encode("utf-8") if isinstance(body, str) else json.dumps(body).encode("utf-8")


class Server:
    """A tenon-serve process. It has one thread for the model, because tests share the machine."""

    def __init__(self, *flags, env=None, port=0, wait=True):
        self.log_file = tempfile.TemporaryFile("w+b")
        threads = [] if "--threads" in flags else ["--threads", "1"]
        command = [PROGRAM, *(["--port", str(port)] if port is not None else []), *threads, *map(str, flags)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log_file,
                                        env=env or environment())
        self.host, self.port, self.key = "127.0.0.1", port, None
        if wait:
            self.wait()

    def wait(self):
        """Waits until it reports that it listens."""

        def listening():
            found = re.search(r"^tenon: listening on https?(?:://.*:(\d+)|\+unix:.*)$", self.text(), re.MULTILINE)
            if not found and self.process.poll() is not None:
                raise AssertionError("the server ended with status %d: %s" % (self.process.returncode, self.text()))
            return found

        try:
            self.port = int(eventually(listening, "the server does not listen").group(1) or 0)
        except AssertionError:
            self.kill()
            raise
        return self

    # ---- log

    def text(self):
        size = os.fstat(self.log_file.fileno()).st_size
        return os.pread(self.log_file.fileno(), size, 0).decode("utf-8")

    def lines(self):
        """The lines of its log, one per request."""
        return [json.loads(line) for line in self.text().split("\n")[:-1] if not line.startswith("tenon: ")]

    def line(self, request_id):
        """The log line of a request, which appears shortly after the answer."""

        def find():
            return next((line for line in self.lines() if line["id"] == request_id), None)

        return eventually(find, "no line in the log of " + request_id)

    # ---- shutdown

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def ended(self, seconds=PATIENCE):
        return self.process.wait(seconds)

    def stop(self):
        self.signal()
        return self.ended()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.log_file.close()

    # ---- requests

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Sends a request and returns the complete answer."""
        own = connection or self.connection()
        headers = dict({"X-Api-Key": self.key} if self.key else {}, **(headers or {}))
        try:
            own.request(method, path, encoded(body), headers)
            response = own.getresponse()
            return Answer(response, response.read())
        finally:
            if not connection:
                own.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def stream(self, path, body, headers=None):
        """Sends a request and returns the answer as a stream. An error has the stream's `status`."""
        connection = self.connection()
        headers = dict({"X-Api-Key": self.key} if self.key else {}, **(headers or {}))
        connection.request("POST", path, encoded(body), headers)
        return Stream(connection, connection.getresponse())

    def raw(self, receive_buffer=None):
        """A raw socket, for bytes that no HTTP library would send."""
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(PATIENCE)
        s.connect(("127.0.0.1", self.port))
        return s

    # ---- counters

    def metrics(self):
        """{name with labels: value}"""
        answer = self.get("/metrics")
        if answer.status != 200:
            raise AssertionError(repr(answer))
        samples = [line.rsplit(" ", 1) for line in answer.text().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in samples}

    def metric(self, name):
        """The sum over all labels."""
        return sum(v for k, v in self.metrics().items() if k == name or k.startswith(name + "{"))

    def failures(self, metrics=None):
        """{kind: count} of the failures."""
        found = {}
        for name, value in (metrics or self.metrics()).items():
            if name.startswith("lorax_request_failure{") and value:
                found[re.search('err="(.*?)"', name).group(1)] = value
        return found

    def wait_quiet(self):
        """Waits until no request is open. Returns the metrics."""

        def quiet():
            now = self.metrics()
            return now if now["tenon_requests_open"] == 0 else None

        return eventually(quiet, lambda: "requests stay open: %s" % self.text()[-2000:])


def post_bytes(path, body, *headers):
    """The bytes of a POST request."""
    head = ["POST %s HTTP/1.1" % path, "Host: x", "Content-Length: %d" % len(body), *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def receive_all(s):
    """All bytes until the connection ends; a reset ends it, too."""
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            content += piece
    return content


class ServerTest(unittest.TestCase):
    """One server for all tests of a class. At the end it must be healthy and must stop when asked."""

    FLAGS = []

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)

    @classmethod
    def tearDownClass(cls):
        with cls.server as server:
            alive = server.get("/health").status if server.process.poll() is None else None
            status = server.stop() if alive else server.process.returncode
            text = server.text()
        if alive != 200 or status != 0:
            raise AssertionError("health %s, exit status %s\n%s" % (alive, status, text[-2000:]))

    # ---- LoRAX

    def generate(self, inputs="The king said", path="/generate", **parameters):
        answer = self.server.post(path, {"inputs": inputs, "parameters": parameters})
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def generate_stream(self, inputs="The king said", **parameters):
        with self.server.stream("/generate_stream", {"inputs": inputs, "parameters": parameters}) as stream:
            self.assertEqual(stream.status, 200)
            return list(stream)

    def refused(self, body, status, error_type, prefix="", path="/generate"):
        """Checks for an error in LoRAX's form."""
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, (body, answer))
        error = answer.json()
        self.assertEqual(set(error), {"error", "error_type"}, body)
        self.assertEqual(error["error_type"], error_type, body)
        self.assertTrue(error["error"].startswith(prefix), (body, error, prefix))
        return answer

    # ---- OpenAI

    def openai(self, path, body):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def complete(self, prompt="The king said", **more):
        return self.openai("/v1/completions", {"prompt": prompt} | more)

    def chat(self, content="Who is the king?", **more):
        return self.openai("/v1/chat/completions", {"messages": [{"role": "user", "content": content}]} | more)

    def openai_stream(self, path, body):
        """The chunks, without the final [DONE]."""
        with self.server.stream(path, body | {"stream": True}) as stream:
            self.assertEqual(stream.status, 200)
            events = list(stream)
        self.assertEqual(events[-1], "[DONE]")
        self.assertNotIn("[DONE]", events[:-1])
        return events[:-1]

    def refused_openai(self, path, body, status, error_type, param=None, code=None):
        """Checks for an error in OpenAI's form. `code=...` (Ellipsis) accepts any code."""
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, (body, answer))
        self.assertEqual(set(answer.json()), {"error"}, body)
        error = answer.json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"}, body)
        self.assertEqual(error["type"], error_type, (body, error))
        self.assertEqual(error["param"], param, (body, error))
        self.assertTrue(error["message"] and isinstance(error["message"], str), error)
        if code is not ...:
            self.assertEqual(error["code"], code, (body, error))
        return answer


def main():
    unittest.main(verbosity=1)
