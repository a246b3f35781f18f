"""TLS and Unix sockets: certificates, their exchange under load, clients that are slow in a handshake, and wrong settings."""
import contextlib
import http.client
import os
import pathlib
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serving
from serving import PATIENCE, Server, eventually

BODY = '{"inputs": "The king said", "parameters": {"max_new_tokens": 8}}'


def make_certificate(folder, name):
    """A self-signed certificate for localhost. Returns the paths of the certificate and of its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.made.name)
        cls.first, cls.second = make_certificate(cls.folder, "first"), make_certificate(cls.folder, "second")

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def install(self, pair):
        """Puts a certificate and its key where the server reads them."""
        for source, name in zip(pair, ["now.pem", "now.key"]):
            shutil.copy(source, self.folder / (name + ".new"))
            os.replace(self.folder / (name + ".new"), self.folder / name)
        return ["--tls-cert", self.folder / "now.pem", "--tls-key", self.folder / "now.key"]

    def context(self, *pairs):
        """Trusts these certificates alone."""
        context = ssl.create_default_context()
        for certificate, _ in pairs:
            context.load_verify_locations(certificate)
        return context

    def connect(self, server, context):
        return http.client.HTTPSConnection("localhost", server.port, timeout=PATIENCE, context=context)

    def ask(self, connection, method="POST", path="/generate", body=BODY):
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()

    def ask_once(self, connection, *what, **more):
        with contextlib.closing(connection):
            return self.ask(connection, *what, **more)

    def subject(self, server):
        """Name of the certificate that a new connection gets."""
        with self.context(self.first, self.second).wrap_socket(socket.create_connection(("localhost", server.port), PATIENCE),
                                                               server_hostname="localhost") as s:
            return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]


class Tls(TlsTest):
    def setUp(self):
        self.server = self.serve()

    def serve(self, *flags):
        server = Server(*self.install(self.first), *flags)
        self.addCleanup(server.__exit__)
        return server

    def test_answers_are_those_of_http(self):
        with Server() as plain:
            expected = plain.post("/generate", BODY).body
        connection = self.connect(self.server, self.context(self.first))
        self.addCleanup(connection.close)
        for _ in range(3):  # on one connection
            self.assertEqual(self.ask(connection), (200, expected))
        connection.request("POST", "/generate_stream", BODY)
        events = connection.getresponse().read().split(b"\n\n")
        self.assertEqual(len(events), 9)
        self.assertEqual(self.ask(connection, "GET", "/health", None)[0], 200)
        large = '{"inputs": "%s"}' % ("x" * 3_000_000)
        self.assertEqual(self.ask_once(self.connect(self.server, self.context(self.first)), body=large)[0], 413)

    def test_a_body_is_invited(self):
        with self.context(self.first).wrap_socket(socket.create_connection(("localhost", self.server.port), PATIENCE),
                                                  server_hostname="localhost") as s:
            s.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
            self.assertEqual(s.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(BODY.encode())
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_others_are_refused(self):
        with self.assertRaises(ssl.SSLError):  # not the certificate that the client trusts
            self.connect(self.server, self.context(self.second)).connect()
        old = self.context(self.first)
        with self.assertWarns(DeprecationWarning):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises(ssl.SSLError):
            self.connect(self.server, old).connect()
        plain = http.client.HTTPConnection("localhost", self.server.port, timeout=PATIENCE)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            self.ask_once(plain)

    def slow_crowd(self, server):
        crowd = [socket.create_connection(("localhost", server.port), PATIENCE) for _ in range(150)]
        for i, s in enumerate(crowd):
            self.addCleanup(s.close)
            s.sendall(b"\x16\x03\x01\x02\x00\x01"[: i % 7])  # the start of a ClientHello, or nothing
        return crowd

    def test_slow_handshakes_hold_nobody_up(self):
        server = self.serve("--header-timeout", 10 * PATIENCE)
        crowd = self.slow_crowd(server)
        for _ in range(20):
            self.assertEqual(self.ask_once(self.connect(server, self.context(self.first)), "GET", "/health", None)[0], 200)
        self.assertEqual(select.select(crowd, [], [], 0)[0], [])  # the server still waits for all of them

    def test_slow_handshakes_have_an_end(self):
        for s in self.slow_crowd(self.serve("--header-timeout", 1)):
            self.assertEqual(s.recv(10), b"")

    def test_a_slow_reader_gets_all_of_a_stream(self):
        body = '{"inputs": "The king said", "parameters": {"max_new_tokens": 200, "ignore_eos_token": true}}'
        request = b"POST /generate_stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body.encode())
        server = self.serve("--write-timeout", 10)
        with self.context(self.first).wrap_socket(socket.create_connection(("localhost", server.port), PATIENCE),
                                                  server_hostname="localhost") as s:
            s.sendall(request)
            read = b""
            while more := s.recv(300):
                read += more
                time.sleep(0.005)
            self.assertTrue(read.endswith(b"0\r\n\r\n"))
            self.assertEqual(read.count(b"data: "), 200)

    def test_sighup_under_load(self):
        context, failures, stop, served = self.context(self.first, self.second), [], threading.Event(), [0] * 4

        def ask_on(i):
            kept = self.connect(self.server, context)
            while not stop.is_set():
                try:
                    for ask, connection in [(self.ask, kept), (self.ask_once, self.connect(self.server, context))]:
                        status, body = ask(connection, "GET", "/health", None)
                        if status != 200:
                            failures.append((status, body))
                        served[i] += 1
                except (OSError, http.client.HTTPException) as error:
                    failures.append(error)
            kept.close()

        threads = [threading.Thread(target=ask_on, args=(i,)) for i in range(len(served))]
        for each in threads:
            each.start()
        for i in range(10):
            name, pair = ("second", self.second) if i % 2 == 0 else ("first", self.first)
            self.install(pair)
            self.server.signal(signal.SIGHUP)
            eventually(lambda: self.server.text().count("the TLS certificate was read again") == i + 1)
            self.assertEqual(self.subject(self.server), name)
        stop.set()
        for each in threads:
            each.join()
        self.assertEqual(failures, [])
        self.assertGreater(min(served), 0)
        # A key that belongs to another certificate changes nothing.
        shutil.copy(self.second[1], self.folder / "now.key")
        self.server.signal(signal.SIGHUP)
        eventually(lambda: "the TLS certificate was not read again, and nothing changes: --tls-key" in self.server.text())
        self.assertEqual(self.subject(self.server), "first")
        self.assertEqual(self.server.stop(), 0)


class Others(TlsTest):
    """Who delays nobody else, on servers of their own: no deadline but the one that is tested may be short."""

    def test_one_who_never_reads_is_let_go(self):
        server, context = Server(*self.install(self.first), "--write-timeout", "2"), self.context(self.first)
        self.addCleanup(server.__exit__)
        body = '{"inputs": "%s"}' % ("a b " * 380)
        request = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body.encode())
        whole = len(self.ask_once(self.connect(server, context), path="/tokenize", body=body)[1])
        self.assertGreater(100 * whole, 3_000_000)  # more than a socket of this machine buffers
        folder = "/proc/%d/fd" % server.process.pid
        eventually(lambda: not self.connections(folder))
        deaf = []
        try:
            for _ in range(3):
                plain = server.raw(receive_buffer=2048)
                s = context.wrap_socket(plain, server_hostname="localhost")
                deaf.append(s)
                s.sendall(request)
                self.assertEqual(s.recv(1), b"H")
                s.sendall(99 * request)
            self.assertEqual(self.ask_once(self.connect(server, context))[0], 200)
            # The server closes them after --write-timeout and before --idle-timeout; these sockets are still open.
            eventually(lambda: not self.connections(folder), "their connections are kept")
        finally:
            for s in deaf:
                s.close()

    def connections(self, folder):
        """Descriptors of sockets beyond the one that listens."""
        sockets = []
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(os.path.join(folder, fd)).startswith("socket:"):
                    sockets.append(fd)
        return sockets[1:]

    def test_a_crowd_in_its_handshakes_holds_nobody_up(self):
        large = self.folder / "large.pem", self.folder / "large.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2", "-subj", "/CN=large", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", large[1], "-out", large[0]], check=True, capture_output=True)
        server = Server(*self.install(large), "--header-timeout", 60)
        self.addCleanup(server.__exit__)
        hello = ssl.MemoryBIO()
        client = self.context(large).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        hello = hello.read()
        kept = self.connect(server, self.context(large))
        self.addCleanup(kept.close)
        self.assertEqual(self.ask(kept, "GET", "/health", None)[0], 200)

        def served_before():
            """Handshakes that the server had answered when it answered a request behind all of them."""
            crowd = [socket.create_connection(("localhost", server.port), PATIENCE) for _ in range(100)]
            try:
                server.signal(signal.SIGSTOP)  # all come at once, and the one who asks comes last
                for s in crowd:  # each hello costs the server a signature
                    s.sendall(hello)
                kept.request("GET", "/health")
                server.signal(signal.SIGCONT)
                response = kept.getresponse()
                before = len(select.select(crowd, [], [], 0)[0])
                self.assertEqual((response.status, response.read() != b""), (200, True))
                for s in crowd:
                    self.assertEqual(s.recv(1), b"\x16")  # the server's part of the handshake
                return before
            finally:
                for s in crowd:
                    s.close()

        # A busy machine may run this process late. A server that lets requests wait answers the whole crowd each time.
        eventually(lambda: served_before() < 33)


class Wrong(TlsTest):
    def test_settings(self):
        (self.folder / "empty").write_text("")
        for flags, status, part in [
            (["--tls-cert", self.first[0]], 2, "--tls-key: is needed"),
            (["--tls-key", self.first[1]], 2, "--tls-cert: is needed"),
            (["--tls-cert", self.folder / "none", "--tls-key", self.first[1]], 1, "--tls-cert"),
            (["--tls-cert", self.first[0], "--tls-key", self.folder / "empty"], 1, "--tls-key"),
            (["--tls-cert", self.first[0], "--tls-key", self.second[1]], 1, "key values mismatch"),
            (["--unix-socket", "/" + "x" * 107], 2, "--unix-socket"),
            (["--unix-socket", self.folder / "no" / "folder"], 1, "--unix-socket"),
        ]:
            done = serving.run("--port", 0, *flags)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(part, done.stderr)


class UnixSocket(TlsTest):
    def connection(self, path):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(str(path))
        return connection

    def test_it_serves_and_removes_its_file(self):
        path = self.folder / "serve.sock"
        with Server("--unix-socket", path) as server:
            self.assertEqual(self.ask_once(self.connection(path))[0], 200)
            eventually(lambda: [line["status"] for line in server.lines()] == [200])
            second = serving.run("--unix-socket", path)  # the first one listens there
            self.assertEqual(second.returncode, 1)
            self.assertIn("--unix-socket", second.stderr)
            self.assertEqual(self.ask_once(self.connection(path))[0], 200)
            self.assertEqual(server.stop(), 0)
        self.assertFalse(path.exists())

    def test_a_file_that_a_killed_server_left_is_replaced(self):
        path = self.folder / "left.sock"
        with Server("--unix-socket", path) as server:
            server.kill()
        self.assertTrue(path.is_socket())
        with Server("--unix-socket", path, *self.install(self.first)):  # with TLS
            connection = self.connection(path)
            connection.sock = self.context(self.first).wrap_socket(connection.sock, server_hostname="localhost")
            self.assertEqual(self.ask_once(connection)[0], 200)
        file = self.folder / "a file"
        file.write_text("kept")
        self.assertEqual(serving.run("--unix-socket", file).returncode, 1)
        self.assertEqual(file.read_text(), "kept")


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("skipped: no openssl, which makes the certificates")
        sys.exit(77)
    serving.main()
