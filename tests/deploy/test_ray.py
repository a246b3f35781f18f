"""deploy/ray with Ray Serve: two replicas of tenon-serve, twenty adapters, four slots each. Prints its measurements.

    test_ray.py PROGRAM [TEST ...]              (or TENON_SERVE=PROGRAM)
"""
import collections
import contextlib
import http.client
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOYED = ROOT / "deploy" / "ray"
# Set before Ray is imported, so that its processes inherit them and send no usage reports.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "PYTHONPATH": str(DEPLOYED)}
for each in [name for name in os.environ if name.startswith("TENON_") and name != "TENON_SERVE"]:
    del os.environ[each]
sys.path[:0] = [str(ROOT / "tests" / "server"), str(DEPLOYED)]
import pydantic  # noqa: E402
import ray  # noqa: E402
import serving  # noqa: E402
import tenon_app  # noqa: E402
import yaml  # noqa: E402
from serving import eventually  # noqa: E402
from test_resume import events  # noqa: E402
from resuming_stream import resuming_stream  # noqa: E402  (in the folder that test_resume adds)

CONFIGURATION = DEPLOYED / "serve.yaml"
ADAPTERS = ["%s-%02d" % (serving.NAMES[i % 3], i) for i in range(20)]
SLOTS = 4
KEY = "a-key-of-the-test"
LONG = 700  # tokens of a stream that is still open when something happens to it
KNOWN = 1.0  # seconds after which Serve's proxy knows a replica's adapters; it takes two or three tenths


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def read(path):
    """A file of /proc; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


class At(serving.Server):
    """The interface of a server that this test did not start."""

    def __init__(self, port, pid=None):
        self.port, self.pid, self.key = port, pid, KEY

    def parent(self):
        """The process of Ray that started it."""
        return int(read(pathlib.Path("/proc", str(self.pid), "stat")).rsplit(b")", 1)[1].split()[1])


def listening(pid):
    """The port that a process listens on."""
    with contextlib.suppress(OSError):
        held = {os.readlink(fd) for fd in pathlib.Path("/proc", str(pid), "fd").iterdir()}
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and "socket:[%s]" % words[9] in held:
                return int(words[1].split(":")[1], 16)
    return None


class RayServe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tenon-ray-", ignore_cleanup_errors=True)  # a short path, because it contains sockets
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name, "adapters")
        for name in ADAPTERS:  # copies, because links must stay below the root
            shutil.copytree(serving.ADAPTERS / name.rsplit("-", 1)[0], cls.root / name)
        keys = pathlib.Path(folder.name, "keys")
        keys.write_text(KEY + "\n")
        keys.chmod(0o600)
        resume_key = pathlib.Path(folder.name, "resume.key")
        resume_key.write_text("a secret of at least thirty-two bytes")
        cls.configuration = yaml.safe_load(CONFIGURATION.read_text())
        cls.configuration["http_options"]["port"] = serving.free_port()
        cls.application = At(cls.configuration["http_options"]["port"])
        cls.addClassCleanup(cls.end)
        cls.start(folder.name + "/r")
        cls.deploy(server=serving.PROGRAM, adapter_slots=SLOTS,
                   flags=["--adapter-root", str(cls.root), "--stream-interval", "0", "--api-key-file", str(keys),
                          "--resume-key-file", str(resume_key)])
        cls.wait_up()

    @staticmethod
    def start(folder, tries=4):
        """Starts Ray, with retries: it gives its processes 30 s to start, which a busy machine exceeds."""
        for left in reversed(range(tries)):
            try:
                return ray.init(address="local", num_cpus=3, include_dashboard=False, object_store_memory=100 << 20,
                                log_to_driver=False, logging_level="critical", _temp_dir=folder)
            except Exception:
                ray.shutdown()
                if not left:
                    raise

    @classmethod
    def deploy(cls, **arguments):
        """Deploys the configuration file with these arguments changed."""
        cls.configuration["applications"][0]["args"] |= arguments
        own = cls.root.with_name("serve.yaml")
        own.write_text(yaml.safe_dump(cls.configuration))
        done = subprocess.run([pathlib.Path(sys.executable).with_name("serve"), "run", "--non-blocking",
                               "--address", ray.get_runtime_context().gcs_address, own], capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr

    @classmethod
    def end(cls):
        if ray.is_initialized():
            ray.serve.shutdown()
        ray.shutdown()
        eventually(lambda: not cls.servers(), "orphans")

    @classmethod
    def servers(cls):
        """The servers of this test that listen."""
        found = []
        for each in pathlib.Path("/proc").iterdir():
            if each.name.isdigit() and str(cls.root).encode() in (command := read(each / "cmdline").split(b"\0")):
                if command[0] == serving.PROGRAM.encode() and (port := listening(each.name)):
                    found.append(At(port, int(each.name)))
        return sorted(found, key=lambda server: server.pid)

    @classmethod
    def wait_up(cls):
        """Waits until there are two replicas and Serve knows both. Returns them."""
        asked = {"prompt": "x", "max_tokens": 1}

        def up():
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                servers = cls.servers()
                if len(servers) != 2 or any(server.get("/ready").status != 200 for server in servers):
                    return None
                before = [server.metric("lorax_request_count") for server in servers]
                if any(cls.application.post("/v1/completions", asked).status != 200 for _ in range(12)):
                    return None
                if all(server.metric("lorax_request_count") > count for server, count in zip(servers, before)):
                    return servers
            return None

        return eventually(up, lambda: "no two replicas: %s" % [vars(server) for server in cls.servers()], seconds=300)

    def setUp(self):
        self.replicas = self.wait_up()

    # ---- requests

    def generate(self, adapter=None, tokens=8, server=None, **more):
        parameters = {"max_new_tokens": tokens, "details": True} | ({"adapter_id": adapter} if adapter else {})
        answer = (server or self.application).post("/generate", {"inputs": "The king", "parameters": parameters}, **more)
        self.assertEqual(answer.status, 200, answer)
        return answer

    @staticmethod
    def asked(adapter, tokens=900):
        """A request for exactly this number of tokens."""
        return {"inputs": "The king", "parameters": {"max_new_tokens": tokens, "ignore_eos_token": True, "adapter_id": adapter}}

    def counted(self, metric):
        """The metric of each replica."""
        return [server.metric(metric) for server in self.replicas]

    def gone_up(self, metric, before):
        return [now - then for now, then in zip(self.counted(metric), before)]

    # ---- the proxy

    def test_answers_are_those_of_the_server(self):
        for name in [None, *ADAPTERS[:6]]:
            whole = self.generate(name, tokens=40)
            for server in self.replicas:
                direct = self.generate(name, tokens=40, server=server)
                self.assertEqual(whole.body, direct.body, name)
                self.assertEqual(set(whole.headers) - {"date", "server"}, set(direct.headers) - {"connection", "keep-alive"}, name)

    def test_refusals_are_those_of_the_server(self):
        cases = [("/generate", "no json", {}), ("/generate", "[1]", {}), ("/generate", "[" * 2000, {}),
                 ("/generate", b"\xff", {}),
                 ("/generate", {"inputs": "x", "parameters": {"adapter_id": "nobody"}}, {}),
                 ("/generate", {"inputs": "x", "parameters": {"adapter_id": "../../etc/passwd"}}, {}),
                 ("/generate", {"inputs": "x", "parameters": {"adapter_id": 7}}, {}),
                 ("/generate", {"inputs": "x", "parameters": [ADAPTERS[0]]}, {}),
                 ("/v1/completions", {"prompt": "x", "model": "nobody"}, {}),
                 ("/v1/completions", {"prompt": "x", "model": "\ud800"}, {}),
                 ("/v1/completions", {"prompt": "x", "model": ADAPTERS[0], "suffix": "y"}, {}),
                 ("/v1/completions", {"prompt": "x", "stream": True, "model": "nobody"}, {}),
                 ("/v1/completions", {"prompt": "x"}, {"X-Api-Key": "wrong"}),
                 ("/generate", {"inputs": "x", "parameters": {"adapter_id": ADAPTERS[0]}}, {"X-Api-Key": "wrong"}),
                 ("/generate", {"inputs": "x"}, {"Content-Encoding": "gzip"}),
                 ("/generate", {"inputs": "x" * 2_000_001}, {}), ("/v1/completions", {"prompt": "x" * 2_000_001}, {}),
                 ("/tokenize", {}, {}), ("/info", {}, {})]
        for path, body, headers in cases:
            direct, answer = (server.post(path, body, headers=headers) for server in (self.replicas[0], self.application))
            self.assertGreaterEqual(direct.status, 400, (path, body, headers))
            self.assertEqual((answer.status, answer.json()), (direct.status, direct.json()), (path, str(body)[:200], headers))
            for name in ["retry-after", "www-authenticate", "allow", "content-type"]:
                self.assertEqual(answer.headers.get(name), direct.headers.get(name), (path, name))
        self.assertEqual(self.servers()[0].pid, self.replicas[0].pid)

    def test_keys(self):
        asked = {"inputs": "x", "parameters": {"max_new_tokens": 1}}
        without = At(self.application.port)
        without.key = None
        for headers, status in [({"Authorization": "Bearer " + KEY}, 200), ({"X-Api-Key": KEY}, 200),
                                ({"Authorization": "Bearer no"}, 401)]:
            self.assertEqual(without.post("/generate", asked, headers=headers).status, status, headers)
        self.assertEqual(without.post("/generate", asked).status, 401)
        self.assertEqual(without.get("/info").status, 401)
        self.assertEqual(without.get("/health").status, 200)

    def test_only_routes_for_clients_are_forwarded(self):
        for path in ["/metrics", "/ui", "/ui/steps?since=0", "/lora-adapters", "/v1/load_lora_adapter", "/v1/%6coad_lora_adapter",
                     "//metrics", "/generate/../metrics", "/v1/models/../../metrics", "/%67enerate", "/docs", "/openapi.json"]:
            answer = self.application.get(path)
            self.assertEqual(answer.status, 404, path)
            self.assertIn("error", answer.json())
        self.assertEqual(self.application.get("/metrics").json(), {"error": "no such route", "error_type": "not_found"})
        self.assertEqual(self.application.get("/v1/x").json()["error"]["type"], "not_found_error")
        for path in ["/info", "/v1/models", "/v1/models/" + ADAPTERS[0], "/ready", "/health", "/ping", "/v1/health", "/",
                     "/info?x=1"]:
            answer, direct = self.application.get(path), self.replicas[0].get(path)
            self.assertEqual((answer.status, direct.status), (200, 200), path)
            if path.startswith("/info"):
                self.assertEqual(answer.json(), direct.json())
        answer = self.application.post("/tokenize", {"inputs": "x"})
        self.assertEqual(answer.json(), self.replicas[0].post("/tokenize", {"inputs": "x"}).json())
        self.assertEqual(self.application.ask("PUT", "/generate", "{}").status, 405)

    def test_request_ids(self):
        connection = self.application.connection()
        connection.request("GET", "/info", headers={"X-Request-Id": "mine", "X-Api-Key": KEY})
        found = [value for name, value in connection.getresponse().getheaders() if name.lower() == "x-request-id"]
        connection.close()
        self.assertEqual(found, ["mine"])
        self.assertRegex(self.application.get("/info").headers["x-request-id"], "^[0-9a-f]{8}-")

    # ---- streams

    def test_streams_pass_token_by_token(self):
        asked = self.asked(ADAPTERS[0], LONG)
        with self.replicas[0].stream("/generate_stream", asked) as stream:
            direct, kind = list(stream), stream.headers["content-type"]
        arrivals, events, begin = [], [], time.monotonic()
        with self.application.stream("/generate_stream", asked) as stream:
            self.assertEqual((stream.status, stream.headers["content-type"]), (200, kind))
            for event in stream:
                arrivals.append(time.monotonic() - begin)
                events.append(event)
        self.assertEqual(events, direct)
        apart = sum(b - a > 0.0002 for a, b in zip(arrivals, arrivals[1:]))
        say("stream: %d events, %d of them apart; the first after %.0f ms, the last after %.0f ms" %
            (len(events), apart, 1e3 * arrivals[0], 1e3 * arrivals[-1]))
        self.assertGreater(apart, LONG // 4)
        self.assertLess(arrivals[0], arrivals[-1] / 4)
        self.assertLess(arrivals[LONG // 2], arrivals[-1] * 0.8)

    def test_openai_streams(self):
        asked = {"prompt": "The king", "max_tokens": 40, "temperature": 0, "stream": True, "model": ADAPTERS[1]}
        texts = []
        for server in [self.application, *self.replicas]:
            with server.stream("/v1/completions", asked) as stream:
                *events, last = stream
            self.assertEqual(last, "[DONE]")
            texts.append([event["choices"][0]["text"] for event in events])
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])

    def test_a_client_that_leaves_is_cancelled(self):
        for path in ["/generate_stream", "/generate"]:
            before = self.counted("tenon_requests_ended_total{way=\"cancelled\"}")
            connection = self.application.connection()
            connection.request("POST", path, serving.encoded(self.asked(ADAPTERS[2])), {"X-Api-Key": KEY})
            eventually(lambda: sum(self.counted("tenon_requests_open")) == 1)
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            begin = time.monotonic()
            eventually(lambda: sum(self.gone_up("tenon_requests_ended_total{way=\"cancelled\"}", before)) == 1)
            say("%s left: cancelled after %.0f ms" % (path, 1e3 * (time.monotonic() - begin)))
            self.assertEqual(sum(self.counted("tenon_requests_open")), 0)

    # ---- routing

    def test_an_adapter_is_found_wherever_it_is_named(self):
        for name in ADAPTERS[:3]:
            self.generate(name, tokens=1)
            time.sleep(KNOWN)
            before, loads = self.counted("lorax_request_count"), self.counted("tenon_adapter_loads_total")
            body = {"inputs": "x", "parameters": {"adapter_id": name, "max_new_tokens": 1}}
            openai = {"prompt": "x", "max_tokens": 1}
            for _ in range(2):
                for path, asked, headers in [
                    ("/generate", body, {}), ("/", body, {}), ("/generate_stream", body, {}), ("/generate?a=b", body, {}),
                    ("/generate", body | {"model": name}, {}), ("/v1/completions", openai | {"model": name}, {}),
                    ("/v1/completions", openai | {"adapter_id": name}, {}),
                    ("/v1/completions", openai | {"model": name}, {"X-Adapter-Id": name}),
                ]:
                    self.assertEqual(self.application.post(path, asked, headers=headers).status, 200, (path, asked))
            self.assertEqual(sorted(self.gone_up("lorax_request_count", before)), [0, 16], name)
            self.assertEqual(self.gone_up("tenon_adapter_loads_total", loads), [0, 0], name)

    def test_no_adapter_goes_anywhere(self):
        for asked in [{}, {"model": "tales"}, {"model": None}, {"model": ""}]:
            before = self.counted("lorax_request_count")
            for _ in range(30):
                self.assertEqual(self.application.post("/v1/completions", {"prompt": "x", "max_tokens": 1} | asked).status, 200)
            self.assertGreaterEqual(min(self.gone_up("lorax_request_count", before)), 4, asked)

    def test_what_is_no_adapter_takes_the_place_of_none(self):
        for name in ADAPTERS[:SLOTS]:
            self.generate(name, tokens=1)
        time.sleep(KNOWN)
        before = self.counted("tenon_adapter_loads_total")
        for i in range(20):
            answer = self.application.post("/v1/completions", {"prompt": "x", "model": "nobody-%d" % i})
            self.assertEqual(answer.status, 404)
        time.sleep(KNOWN)
        for name in ADAPTERS[:SLOTS]:
            self.generate(name, tokens=1)
        self.assertEqual(self.gone_up("tenon_adapter_loads_total", before), [0, 0])

    # ---- adapter hits

    def sessions(self, ask, clients=8, sessions=3, requests=20, tokens=16, seed=1):
        """The share of requests whose adapter was in memory.

        Each client uses one adapter for a number of requests, with pauses as of a reader. Then it uses another one that no other
        client uses. Names and order are the same for every `ask`, as far as time allows.
        """
        generator = random.Random(seed)
        free, lock = random.Random(seed).sample(ADAPTERS, len(ADAPTERS)), threading.Lock()
        before, loads = self.counted("lorax_request_count"), self.counted("tenon_adapter_loads_total")

        def client(generator):
            for _ in range(sessions):
                with lock:
                    name = free.pop(0)
                for _ in range(requests):
                    time.sleep(generator.uniform(0.2, 0.6))
                    ask(name, tokens)
                with lock:
                    free.append(name)

        serving.all_at_once([lambda g=random.Random(generator.random()): client(g) for _ in range(clients)])
        asked = sum(self.gone_up("lorax_request_count", before))
        self.assertEqual(asked, clients * sessions * requests)
        return 1 - sum(self.gone_up("tenon_adapter_loads_total", loads)) / asked

    def test_adapters_are_there_twice_as_often_as_at_random(self):
        choice = random.Random(7)
        ways = {
            "multiplexed": lambda name, tokens: self.generate(name, tokens),
            # A header with the base model's name has precedence over the body, so Serve routes without a name.
            "by Serve, without names": lambda name, tokens: self.generate(name, tokens, headers={"X-Adapter-Id": "tales"}),
            "at random": lambda name, tokens: self.generate(name, tokens, server=choice.choice(self.replicas)),
        }
        rates = {}
        for way, ask in ways.items():
            rates[way] = self.sessions(ask)
            say("sessions, %s: %.1f %% of requests find their adapter" % (way, 100 * rates[way]))
        self.assertGreaterEqual(rates["multiplexed"], 2 * rates["at random"])
        self.assertGreater(rates["multiplexed"], rates["by Serve, without names"])

    # ---- failures of replicas

    @contextlib.contextmanager
    def traffic(self, clients=4):
        """Collects the statuses of whole answers."""
        done, found = threading.Event(), []

        def client(generator):
            while not done.is_set():
                found.append(self.application.post("/generate", self.asked(generator.choice(ADAPTERS), 24)).status)

        threads = [threading.Thread(target=client, args=(random.Random(i),)) for i in range(clients)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: len(found) > 10)
            yield found
        finally:
            done.set()
            for thread in threads:
                thread.join(2 * serving.PATIENCE)
        self.assertFalse(any(thread.is_alive() for thread in threads), "a request got no answer in time")

    def long_stream(self, name):
        stream = self.application.stream("/generate_stream", self.asked(name))
        self.assertEqual(stream.status, 200)
        next(stream)
        return stream

    def replaced(self, end):
        """Under load: as soon as a stream of a replica is open, `end` ends that replica."""
        before = self.counted("lorax_request_count")
        with self.long_stream(ADAPTERS[0]) as stream:
            victim, = (server for server, more in zip(self.replicas, self.gone_up("lorax_request_count", before)) if more)
            with self.traffic() as found:
                end(victim)
                begin = time.monotonic()
                with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                    list(stream)
                broken = time.monotonic() - begin
                eventually(lambda: not os.path.exists("/proc/%d" % victim.pid), "the server outlives its replica", seconds=10)
                again = self.wait_up()
                took = time.monotonic() - begin
        say("a replica ended under load: its stream broke after %.2f s, two were there after %.1f s; of whole answers %s" %
            (broken, took, dict(collections.Counter(found))))
        self.assertEqual(len({server.pid for server in again} & {server.pid for server in self.replicas}), 1)
        self.assertEqual(set(found), {200})

    def test_a_server_is_killed(self):
        self.replaced(lambda victim: os.kill(victim.pid, signal.SIGKILL))

    def test_a_replica_is_killed(self):
        self.replaced(lambda victim: os.kill(victim.parent(), signal.SIGKILL))

    def test_a_stream_is_continued_when_its_server_is_killed(self):
        case = "/v1/completions", {"prompt": "The king", "max_tokens": LONG, "ignore_eos": True, "model": ADAPTERS[0]}
        before, got, cuts = self.counted("lorax_request_count"), [], []
        for event in resuming_stream("http://127.0.0.1:%d%s" % (self.application.port, case[0]), case[1], {"X-Api-Key": KEY},
                                     retries=60, on_cut=cuts.append):
            got.append(event)
            if len(got) == 5:
                victim, = (server for server, more in zip(self.replicas, self.gone_up("lorax_request_count", before)) if more)
                os.kill(victim.pid, signal.SIGKILL)
        self.assertGreater(len(cuts), 0)
        self.assertEqual(got[-1].data, "[DONE]")
        for server in self.wait_up():  # each replica gives the same rest
            self.assertEqual(events(server, case, got[0].id), got[1:])

    def test_settings_are_changed(self):
        """Replicas are replaced one by one, and finish their requests."""
        begin = time.monotonic()
        limit = self.configuration["applications"][0]["args"]["payload_limit"]
        with self.long_stream(ADAPTERS[0]) as stream, self.traffic() as found:
            self.deploy(payload_limit=limit - 1)
            *_, last = stream
            old = {server.pid for server in self.replicas}
            eventually(lambda: not {server.pid for server in self.servers()} & old, seconds=300)
            self.wait_up()
        say("settings changed under load: %.0f s; of whole answers %s" %
            (time.monotonic() - begin, dict(collections.Counter(found))))
        self.assertEqual(set(found), {200})
        self.assertTrue(last["generated_text"])


class Arguments(unittest.TestCase):
    def test_the_file_shows_all_and_their_defaults(self):
        application, = yaml.safe_load(CONFIGURATION.read_text())["applications"]
        self.assertEqual(application["args"], tenon_app.Settings().model_dump())

    def test_exact_or_refused(self):
        for wrong in [{"colour": 1}, {"replicas": 0}, {"replicas": "2"}, {"adapter_slots": -1}, {"adapter_slots": 1.5},
                      {"flags": "--ui"}]:
            with self.assertRaises(pydantic.ValidationError):
                tenon_app.Settings(**wrong)


if __name__ == "__main__":
    serving.main()
