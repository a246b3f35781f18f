"""deploy/haproxy/haproxy.cfg with HAProxy, two replicas of tenon-serve and twenty adapters. Prints its measurements.

    test_haproxy.py PROGRAM [TEST ...]              (or TENON_SERVE=PROGRAM)
"""
import collections
import csv
import functools
import http.client
import io
import itertools
import json
import os
import pathlib
import random
import re
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
sys.path[:0] = [str(ROOT / "tests" / "server"), str(ROOT / "clients")]
import serving  # noqa: E402
from resuming_stream import resuming_stream  # noqa: E402
from serving import eventually  # noqa: E402

CONFIGURATION = ROOT / "deploy" / "haproxy" / "haproxy.cfg"
ADAPTERS = ["%s-%02d" % (serving.NAMES[i % 3], i) for i in range(20)]
FACTOR = int(re.search(r"presetenv TENON_BALANCE +(\d+)", CONFIGURATION.read_text()).group(1))
LONG = 700  # tokens of a stream that is still open when something happens to it
KILLS = int(os.environ.get("TENON_TEST_KILLS", 25))  # under streams that resume


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def configuration(folder):
    """The configuration file. Without root, the lines that need root are removed."""
    if os.geteuid() == 0:
        return CONFIGURATION
    lines = CONFIGURATION.read_text().splitlines(keepends=True)
    copy = pathlib.Path(folder, "haproxy.cfg")
    copy.write_text("".join(line for line in lines if line.split()[:1] not in (["user"], ["group"], ["chroot"])))
    return copy


class Balancer(serving.Server):
    """HAProxy on sockets that are bound beforehand, so that no port is taken twice. It has the interface of a server."""

    def __init__(self, folder, replicas, **settings):
        self.log_file = tempfile.TemporaryFile("w+b")
        self.key = None
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.port, self.stats_port = (s.getsockname()[1] for s in sockets)
        addresses = dict(zip(("TENON_LISTEN", "TENON_STATS"), ("fd@%d" % s.fileno() for s in sockets)))
        addresses |= {"TENON_REPLICA_" + name: "127.0.0.1:%d" % port for name, port in replicas.items()}
        self.process = subprocess.Popen(["haproxy", "-db", "-f", configuration(folder)], stdin=subprocess.DEVNULL,
                                        stdout=self.log_file, stderr=subprocess.STDOUT,
                                        pass_fds=[s.fileno() for s in sockets],
                                        env=serving.environment(**addresses, **settings))
        for s in sockets:
            s.close()

    def stats(self, path="/;csv"):
        connection = http.client.HTTPConnection("127.0.0.1", self.stats_port, timeout=serving.PATIENCE)
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        assert response.status == 200, text
        return text

    def replicas(self):
        """{name: columns}"""
        rows = csv.DictReader(io.StringIO(self.stats().removeprefix("# ")))
        return {row["svname"]: row for row in rows if row["pxname"] == "tenon" and len(row["svname"]) == 1}

    def states(self):
        return {name: row["status"] for name, row in self.replicas().items()}

    def troubles(self):
        """From its log: answers with 503, and replicas that go up or down."""
        return "\n".join([line for line in self.text().splitlines() if " 503 " in line or "Server " in line][:12])

    def wait_up(self, *names):
        def up():
            assert self.process.poll() is None, self.text()
            found = self.states()  # "UP 1/2" is going down
            return all(found[name] == ("UP" if name in names else "DOWN") for name in found)

        eventually(up, lambda: "%s should be up: %s\n%s" % (names, self.states(), self.text()[-3000:]), seconds=20)


class Outcome:
    """The outcome of one request."""

    def __init__(self, status, replica, complete=True, clean=True, events=0):
        self.status, self.replica, self.complete, self.clean, self.events = status, replica, complete, clean, events

    def __repr__(self):
        return str(vars(self))


class Traffic:
    """Clients in a closed loop, one thread each, until they are stopped; and the outcomes of their requests."""

    def __init__(self, *clients):
        self.done, self.results, self.errors = threading.Event(), [], []
        self.threads = [threading.Thread(target=self.run, args=(each,), daemon=True) for each in clients]
        for thread in self.threads:
            thread.start()

    def run(self, client):
        try:
            while not self.done.is_set():
                self.results.append(client())
        except BaseException as error:
            self.errors.append(error)

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join(2 * serving.PATIENCE)
            assert not thread.is_alive(), "a request got no answer in time"
        if self.errors:
            raise self.errors[0]
        return self.results


def zipf(seed):
    """An endless sequence of adapters; the k-th has a share of about 1/k."""
    generator = random.Random(seed)
    weights = [1 / k for k in range(1, len(ADAPTERS) + 1)]
    while True:
        yield from generator.choices(ADAPTERS, weights, k=64)


class Haproxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        root = pathlib.Path(cls.folder.name, "adapters")
        for name in ADAPTERS:  # copies, because links must stay below the root
            shutil.copytree(serving.ADAPTERS / name.rsplit("-", 1)[0], root / name)
        cls.key = pathlib.Path(cls.folder.name, "resume.key")
        cls.key.write_text("a secret of at least thirty-two bytes")
        cls.replica = {name: cls.start(name) for name in "AB"}
        cls.addClassCleanup(lambda: [each.__exit__() for each in cls.replica.values()])
        cls.balancer = Balancer(cls.folder.name, {name: each.port for name, each in cls.replica.items()})
        cls.addClassCleanup(cls.balancer.__exit__)

    @classmethod
    def start(cls, name, port=0):
        return serving.Server("--adapter-root", pathlib.Path(cls.folder.name, "adapters"), "--stream-interval", 0,
                              "--resume-key-file", cls.key, port=port)

    def restart(self, name):
        before = self.replica[name]
        before.__exit__()
        self.replica[name] = self.start(name, before.port)

    def revive(self, name):
        if self.replica[name].process.poll() is not None:
            self.restart(name)

    def setUp(self):
        self.balancer.wait_up("a", "b")

    # ---- requests

    def generate(self, adapter=None, tokens=8, headers=None, **fields):
        parameters = {"max_new_tokens": tokens} | ({"adapter_id": adapter} if adapter else {})
        return self.replied(self.balancer.post("/generate", {"inputs": "The king", "parameters": parameters} | fields, headers=headers))

    def complete(self, adapter=None, tokens=8):
        return self.replied(self.balancer.post("/v1/completions", {"prompt": "The king", "max_tokens": tokens, "model": adapter}))

    @staticmethod
    def replied(answer):
        return Outcome(answer.status, answer.headers.get("x-tenon-replica"))

    def stream(self, adapter=None, tokens=LONG, openai=False):
        if openai:
            path, body = "/v1/completions", {"prompt": "The king", "max_tokens": tokens, "model": adapter, "stream": True}
        else:
            parameters = {"max_new_tokens": tokens, "adapter_id": adapter, "ignore_eos_token": True}
            path, body = "/generate_stream", {"inputs": "The king", "parameters": parameters}
        result, last = None, None
        try:
            with self.balancer.stream(path, body) as stream:
                result = Outcome(stream.status, stream.headers.get("x-tenon-replica"), complete=False)
                for last in stream:
                    result.events += 1
        except (http.client.IncompleteRead, ConnectionError, AssertionError):
            if not result:
                raise
            result.clean = False
        result.complete = last == "[DONE]" if openai else bool(last and last.get("generated_text") is not None)
        return result

    def home(self, adapter):
        """The name of the adapter's replica without other load."""
        return self.generate(adapter, tokens=1).replica.upper()

    def adapter_of(self, replica):
        return next(name for name in ADAPTERS if self.home(name) == replica)

    # ---- routing

    def test_an_adapter_is_found_wherever_it_is_named(self):
        homes = {name: self.home(name) for name in ADAPTERS}
        self.assertEqual(set(homes.values()), {"A", "B"})
        for name, other in zip(ADAPTERS[:6], ADAPTERS[6:12]):
            for answer in [
                self.generate(name),
                self.generate(headers={"X-Adapter-Id": name}),
                self.generate(adapter=other, headers={"X-Adapter-Id": name}),
                self.generate(parameters={"adapter_id": name, "max_new_tokens": 2}, model=name),
                self.generate(parameters={"merged_adapters": None, "adapter_id": name, "max_new_tokens": 2}),
                self.complete(name),
                self.stream(name, tokens=3),
                self.stream(name, tokens=3, openai=True),
                self.replied(self.balancer.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1, "adapter_id": name})),
                self.replied(self.balancer.post("/", {"inputs": "x", "parameters": {"adapter_id": name, "max_new_tokens": 1}})),
            ]:
                self.assertEqual((answer.status, answer.replica.upper()), (200, homes[name]), (name, answer))

    def test_requests_without_an_adapter_reach_both_replicas(self):
        for each in [{}, {"model": "tales"}, {"model": None}, {"model": ""}]:
            found = collections.Counter(self.replied(self.balancer.post(
                "/v1/completions", {"prompt": "x", "max_tokens": 1} | each)).replica for _ in range(40))
            self.assertGreaterEqual(min(found["a"], found["b"]), 5, (each, found))

    def test_bodies_beyond_the_buffer(self):
        """A name within the first 64 KiB or in the header is found. Otherwise any replica answers, with the same text."""
        text = "The king said. " * 20000
        for replica in "AB":
            name = self.adapter_of(replica)
            first = '{"parameters": {"adapter_id": "%s", "truncate": 20, "max_new_tokens": 2}, "inputs": "%s"}' % (name, text)
            last = '{"inputs": "%s", "parameters": {"adapter_id": "%s", "truncate": 20, "max_new_tokens": 2}}' % (text, name)
            self.assertGreater(len(first), 4 * 65536)
            for _ in range(4):
                answer = self.balancer.post("/generate", first)
                self.assertEqual((answer.status, answer.headers["x-tenon-replica"].upper()), (200, replica), answer)
                whole = answer.json()
                answer = self.balancer.post("/generate", last, headers={"X-Adapter-Id": name})
                self.assertEqual((answer.status, answer.headers["x-tenon-replica"].upper()), (200, replica), answer)
                answer = self.balancer.post("/generate", last)
                self.assertEqual((answer.status, answer.json()), (200, whole))

    def test_only_routes_for_clients_are_forwarded(self):
        for path in ["/metrics", "/ui", "/v1/load_lora_adapter", "/v1/%6coad_lora_adapter", "//metrics", "/generate/../metrics"]:
            self.assertEqual(self.balancer.get(path).status, 404, path)
        for path in ["/info", "/v1/models", "/v1/models/" + ADAPTERS[0], "/ready", "/health"]:
            self.assertEqual(self.balancer.get(path).status, 200, path)
        self.assertEqual(self.balancer.post("/tokenize", {"inputs": "x"}).status, 200)
        posts = [path for path, methods in self.replica["A"].get("/openapi.json").json()["paths"].items() if "post" in methods]
        self.assertGreater(len(posts), 15)
        never = {"/lora-adapters", "/api/pull", "/api/push", "/api/create", "/api/copy"}  # always 501
        for path in set(posts) - never:
            self.assertEqual(self.balancer.post(path, "no json").status, self.replica["A"].post(path, "no json").status, path)

    def test_request_ids(self):
        name = self.adapter_of("A")
        body = {"inputs": "x", "parameters": {"max_new_tokens": 1, "adapter_id": name}}
        self.assertEqual(self.balancer.post("/generate", body, headers={"X-Request-Id": "mine"}).headers["x-request-id"], "mine")
        given = self.balancer.post("/generate", body).headers["x-request-id"]
        self.assertRegex(given, r"^[0-9a-f]{8}-")
        self.assertEqual(self.replica["A"].line(given)["status"], 200)

    def test_metrics_of_the_balancer(self):
        self.assertIn("haproxy_server_status", self.balancer.stats("/metrics"))

    # ---- streams

    def test_streams_pass_token_by_token(self):
        arrivals, begin = [], time.monotonic()
        parameters = {"max_new_tokens": LONG, "ignore_eos_token": True, "adapter_id": ADAPTERS[0]}
        with self.balancer.stream("/generate_stream", {"inputs": "The king", "parameters": parameters}) as stream:
            for _ in stream:
                arrivals.append(time.monotonic() - begin)
        self.assertEqual(len(arrivals), LONG)
        apart = sum(b - a > 0.0002 for a, b in zip(arrivals, arrivals[1:]))
        say("stream: %d events, %d of them apart; the first after %.0f ms, the last after %.0f ms" %
            (LONG, apart, 1e3 * arrivals[0], 1e3 * arrivals[-1]))
        self.assertLess(arrivals[0], arrivals[-1] / 4)
        self.assertLess(arrivals[LONG // 2], arrivals[-1] * 0.8)
        self.assertGreater(apart, LONG // 4)

    def test_a_client_that_leaves_is_cancelled(self):
        name = self.adapter_of("B")
        parameters = {"max_new_tokens": LONG, "ignore_eos_token": True, "adapter_id": name}
        before = self.replica["B"].failures().get("dropped", 0)
        stream = self.balancer.stream("/generate_stream", {"inputs": "The king", "parameters": parameters})
        next(stream)
        stream.response.close()
        stream.close()
        eventually(lambda: self.replica["B"].failures().get("dropped", 0) == before + 1)

    # ---- stickiness and load

    def test_zipf_traffic_sticks_while_load_is_even(self):
        clients, each = 12, 60
        found = collections.defaultdict(collections.Counter)
        lock = threading.Lock()

        def client(seed):
            for name in itertools.islice(zipf(seed), each):
                answer = self.generate(name, tokens=8)
                self.assertEqual(answer.status, 200)
                with lock:
                    found[name][answer.replica] += 1

        serving.all_at_once([lambda seed=seed: client(seed) for seed in range(clients)])
        total = sum(map(sum, (counter.values() for counter in found.values())))
        sticky = sum(max(counter.values()) for counter in found.values()) / total
        shares = sum(found.values(), collections.Counter())
        say("zipf: %d requests of %d clients; %.1f %% at the adapter's main replica; a %d, b %d" %
            (total, clients, 100 * sticky, shares["a"], shares["b"]))
        self.assertEqual(total, clients * each)
        self.assertGreaterEqual(sticky, 0.95, dict(found))
        self.assertGreaterEqual(min(shares["a"], shares["b"]) / total, 0.25)

    def test_one_hot_adapter_spreads_as_far_as_the_bound_says(self):
        name = self.adapter_of("A")
        traffic = Traffic(*[lambda: self.generate(name, tokens=32)] * 32)
        time.sleep(0.5)
        samples = []
        while len(samples) < 40:
            rows = self.balancer.replicas()
            samples.append([int(rows["a"]["scur"]), int(rows["b"]["scur"])])
            time.sleep(0.05)
        results = traffic.stop()
        self.assertEqual({result.status for result in results}, {200})
        open_a, open_b = (sum(column) for column in zip(*samples))
        other = sum(result.replica == "b" for result in results) / len(results)
        say("hot: %d requests of 32 clients; open at the main replica %.1f %%, requests at the other %.1f %%" %
            (len(results), 100 * open_a / (open_a + open_b), 100 * other))
        self.assertAlmostEqual(open_a / (open_a + open_b), FACTOR / 200, delta=0.04)
        self.assertGreaterEqual(other, (1 - FACTOR / 200) / 2)

    # ---- failures of replicas

    def mixed(self, replica):
        """Traffic of 16 clients. Ten send short requests. Six stream, four of them with an adapter of this replica."""
        there = self.adapter_of(replica)
        names = itertools.cycle(ADAPTERS)
        lock = threading.Lock()

        def next_adapter():
            with lock:
                return next(names)

        return Traffic(*[lambda: self.generate(next_adapter(), tokens=24)] * 5,
                       *[lambda: self.complete(next_adapter(), tokens=24)] * 5,
                       *[lambda: self.stream(next_adapter(), tokens=300)] * 2, lambda: self.stream(there, tokens=300),
                       *[lambda: self.stream(there, tokens=300, openai=True)] * 3)

    def test_a_replica_is_killed(self):
        for name in "AB":
            with self.subTest(name):
                self.addCleanup(self.revive, name)
                self.kill_under_load(name, *set("AB") - {name})

    def kill_under_load(self, name, other):
        traffic = self.mixed(name)
        eventually(lambda: len(traffic.results) > 40)
        self.replica[name].kill()
        killed = len(traffic.results)
        self.balancer.wait_up(other.lower())
        eventually(lambda: len(traffic.results) > killed + 40)
        results = traffic.stop()
        broken = [result for result in results if not result.clean]
        say("killed: %d requests, all 200; %d streams broken, each recognised by its client" % (len(results), len(broken)))
        self.assertEqual({result.status for result in results}, {200})
        for result in results:
            self.assertEqual(result.clean, result.complete, result)
        self.assertTrue(all(result.events for result in broken), "a stream broke before its first event and was not retried")
        self.assertTrue(broken and {result.replica for result in broken} == {name.lower()}, broken)
        again = self.balancer.replicas()[name.lower()]
        self.assertGreater(int(again["wretr"]) + int(again["wredis"]), 0)
        self.restart(name)
        self.balancer.wait_up("a", "b")
        self.assertEqual({self.home(name) for name in ADAPTERS}, {"A", "B"})

    def test_streams_that_resume_survive_kills(self):
        url, gaps = "http://127.0.0.1:%d/v1/completions" % self.balancer.port, []

        def client(adapter):
            body, got, cuts = {"prompt": "The king", "model": adapter, "max_tokens": 200, "ignore_eos": True}, [], []
            last = time.monotonic()
            for event in resuming_stream(url, body, retries=200, longest_pause=0.5, timeout=serving.PATIENCE,
                                         on_cut=lambda cut: cuts.append((time.monotonic(), str(cut)))):
                now = time.monotonic()
                if cuts:
                    gaps.append((now - last, now - cuts[-1][0], ["%.2f s: %s" % (at - last, cut) for at, cut in cuts]))
                last = now
                cuts.clear()
                got.append(event)
            return body, got

        for name in "AB":
            self.addCleanup(self.revive, name)
        traffic = Traffic(*(functools.partial(client, name) for name in ADAPTERS[:6]))
        for _ in range(KILLS):
            time.sleep(random.uniform(0, 0.5))
            name = random.choice("AB")
            self.replica[name].kill()
            self.restart(name)
            self.balancer.wait_up("a", "b")
        streams = traffic.stop()
        incomplete = changed = 0
        for body, got in streams:
            incomplete += got[-1].data != "[DONE]"
            seed = int(got[0].id.split(".")[2])  # that the server drew
            with self.balancer.stream("/v1/completions", body | {"stream": True, "seed": seed}) as stream:
                plain = [chunk["choices"] for chunk in stream if chunk != "[DONE]"]
            changed += [json.loads(event.data)["choices"] for event in got[:-1]] != plain
        say("%d kills, %d streams that resume, %d incomplete, %d changed; longest gap %.2f s (%s)" %
            (KILLS, len(streams), incomplete, changed, max(gaps)[0], "; ".join(max(gaps)[2])))
        for name, times in [("gaps", [gap for gap, _, _ in gaps]), ("gaps with one cut", [gap for gap, _, cuts in gaps if len(cuts) == 1]),
                            ("from the last cut to the next event", [rest for _, rest, _ in gaps])]:
            times.sort()
            say("%d %s: median %.2f s, 99 %% %.2f s, longest %.2f s" % (len(times), name, times[len(times) // 2], times[len(times) * 99 // 100], times[-1]))
        self.assertEqual((incomplete, changed), (0, 0))

    def test_a_replica_is_drained(self):
        for name in "AB":
            with self.subTest(name):
                self.addCleanup(self.revive, name)
                self.drain_under_load(name)

    def drain_under_load(self, name):
        homes = {each: self.home(each) for each in ADAPTERS}
        traffic = self.mixed(name)
        eventually(lambda: len(traffic.results) > 40)
        self.replica[name].signal(signal.SIGTERM)
        status = self.replica[name].ended()
        gone = len(traffic.results)
        eventually(lambda: len(traffic.results) > gone + 40)
        results = traffic.stop()
        say("drained: %d requests, none lost" % len(results))
        self.assertEqual(status, 0, self.replica[name].text()[-2000:])
        for result in results:
            self.assertEqual((result.status, result.clean, result.complete), (200, True, True), self.balancer.troubles())
        self.restart(name)
        self.balancer.wait_up("a", "b")
        self.assertEqual({each: self.home(each) for each in ADAPTERS}, homes)

    def test_no_replica(self):
        for name in "AB":
            self.addCleanup(self.revive, name)
            self.replica[name].kill()
        self.balancer.wait_up()
        self.assertEqual(self.balancer.get("/ready").status, 503)
        self.assertEqual(self.generate(ADAPTERS[0]).status, 503)
        for name in "AB":
            self.restart(name)
        self.balancer.wait_up("a", "b")
        self.assertEqual(self.balancer.get("/ready").status, 200)


if __name__ == "__main__":
    serving.main()
