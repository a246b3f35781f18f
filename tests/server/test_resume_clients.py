"""clients/resuming_stream.py with servers whose connections are cut, that end, and that are killed."""
import collections
import concurrent.futures
import contextlib
import json
import os
import random
import signal
import socket
import sys
import threading
import time

import serving
from serving import PATIENCE, Server, free_port
from test_resume import CASES, KING, USAGE, ResumeTest, events, seed_of
from resuming_stream import StreamError, resuming_stream  # in the folder that test_resume adds

KILLS = int(os.environ.get("TENON_TEST_KILLS", 25))


class Relay:
    """A TCP relay to a server that cuts each connection after a number of bytes of its answer."""

    def __init__(self, port, sizes):
        self.port_behind, self.sizes, self.cuts = port, iter(sizes), 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        left = next(self.sizes)
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.port_behind), timeout=PATIENCE) as server:
            def forward():
                with contextlib.suppress(OSError):
                    while piece := client.recv(65536):
                        server.sendall(piece)

            threading.Thread(target=forward, daemon=True).start()
            while left > 0 and (piece := server.recv(65536)):
                client.sendall(piece[:left])
                left -= len(piece)
            self.cuts += left <= 0
            for each in [client, server]:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listening.close()


class ClientTest(ResumeTest):
    def urls(self, path, *ports):
        return ["http://127.0.0.1:%d%s" % (port, path) for port in ports]


class Clients(ClientTest):
    def test_cuts_at_any_byte(self):
        choice = random.Random(5)
        for name, (path, body) in CASES.items():
            with self.subTest(name):
                relays = [Relay(each.port, (choice.randint(1, 3000) for _ in range(10**6))) for each in [self.server, self.other]]
                got = list(resuming_stream(self.urls(path, *(each.port for each in relays)), body, pause=0.01, retries=50))
                self.assertEqual(got[1:], events(self.server, (path, body), got[0].id))
                self.assertGreater(sum(relay.cuts for relay in relays), 0)
                for relay in relays:
                    relay.close()

    def test_a_server_that_ends_hands_its_streams_to_the_next(self):
        path, body = "/v1/completions", {"prompt": KING, "max_tokens": 900, "ignore_eos": True}
        first = Server(*self.FLAGS, "--shutdown-timeout", 0)
        self.addCleanup(first.__exit__)
        got, cuts = [], []
        for event in resuming_stream(self.urls(path, first.port, self.other.port), body, on_cut=cuts.append):
            got.append(event)
            if len(got) == 5:
                first.signal(signal.SIGTERM)
        self.assertEqual(got[-1].data, "[DONE]")
        self.assertEqual(got[1:], events(self.server, (path, body), got[0].id))
        self.assertGreater(len(cuts), 0)

    def test_what_is_refused_is_not_tried_again(self):
        tries = []
        with self.assertRaises(StreamError) as caught:
            list(resuming_stream(self.urls("/v1/completions", self.server.port), {"prompt": ""}, on_cut=tries.append))
        self.assertEqual((caught.exception.status, tries), (400, []))
        with self.assertRaises(StreamError) as caught:
            list(resuming_stream(self.urls("/v1/completions", free_port()), {"prompt": KING}, retries=3, pause=0.01, on_cut=tries.append))
        self.assertEqual((caught.exception.status, len(tries)), (0, 4))


class Kills(ClientTest):
    """Servers are killed (SIGKILL) at random times under streams of 200 tokens, and started again."""

    CLIENTS = 4

    def test_kills(self):
        choice = random.Random(7)
        ports = [free_port() for _ in range(2)]
        servers = [Server(*self.FLAGS, port=port) for port in ports]
        self.addCleanup(lambda: [server.__exit__() for server in servers])
        over, streams, cuts, gaps = threading.Event(), [], [], [0.0]
        bodies = [{"prompt": prompt, "max_tokens": 200, "ignore_eos": True, **USAGE, **more}
                  for prompt, more in [(KING, {}), ("Once upon a time", {"model": "weather"}), ("The rain", {"stop": ["zebra"]})]]

        def client(number):
            draw = random.Random(number)
            while not over.is_set():
                body, got, last = draw.choice(bodies), [], time.monotonic()
                urls = self.urls("/v1/completions", *draw.sample(ports, 2))
                for event in resuming_stream(urls, body, retries=200, longest_pause=0.5, timeout=PATIENCE, on_cut=cuts.append):
                    gaps.append(time.monotonic() - last)
                    last = time.monotonic()
                    got.append(event)
                streams.append((body, got))

        def verdict(stream):
            """Compares a stream with the plain stream of its seed."""
            body, got = stream
            if got[-1].data != "[DONE]":
                return "incomplete"
            chunks = [json.loads(event.data) for event in got[:-1]]
            plain = self.openai_stream("/v1/completions", body | {"seed": seed_of(got[0])})
            same = [c["choices"] for c in chunks] == [c["choices"] for c in plain] and chunks[-1]["usage"] == plain[-1]["usage"]
            one = len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
            return "right" if same and one else "changed"

        with concurrent.futures.ThreadPoolExecutor(self.CLIENTS) as pool:
            running = [pool.submit(client, number) for number in range(self.CLIENTS)]
            try:
                for _ in range(KILLS):
                    time.sleep(choice.uniform(0, 0.4))
                    index = choice.randrange(2)
                    servers[index].__exit__()  # SIGKILL
                    servers[index] = Server(*self.FLAGS, port=ports[index])
            finally:
                over.set()
            for each in running:
                each.result()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = collections.Counter(pool.map(verdict, streams))
        print("%d kills, %d cuts of streams, longest gap %.2f s; streams: %s" % (KILLS, len(cuts), max(gaps), dict(found)), file=sys.stderr)
        self.assertEqual(set(found), {"right"})
        self.assertGreater(len(cuts), 0)


if __name__ == "__main__":
    serving.main()
