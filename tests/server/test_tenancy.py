"""Keys with terms: roles, rates, shares, usage by key, the file that is read again; traces, and the server's description of itself."""
import os
import pathlib
import signal
import tempfile
import time
import unittest

import serving
from serving import Server, ServerTest, eventually

KING = "The king said"
SHORT = {"inputs": KING, "parameters": {"max_new_tokens": 4, "ignore_eos_token": True}}
COMPLETION = {"prompt": KING, "max_tokens": 4, "ignore_eos": True}
SECRETS = ["sk-serve", "sk-admin", "sk-metrics", "sk-all", "sk-few", "sk-tokens", "sk-share"]
TRIES = 4
KEYS = """
# team     terms
sk-serve   name=serving roles=serve
sk-admin   name=operator roles=admin
sk-metrics name=prometheus roles=metrics
sk-all
sk-share   name=share requests-at-once=1 tokens-at-once=400
""" + "".join("sk-few%d name=few%d requests-a-minute=3\nsk-tokens%d name=tokens%d tokens-a-minute=120\n" % (4 * (i,)) for i in range(TRIES))


class KeyTest(ServerTest):
    """A server with a file of keys, of which no word may reach its log."""

    FLAGS = ["--enable-adapter-admin"]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.keys = pathlib.Path(cls.folder.name) / "keys"
        cls.keys.write_text(KEYS)
        cls.FLAGS = [*KeyTest.FLAGS, "--api-key-file", cls.keys]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        text = cls.server.text()
        try:
            super().tearDownClass()
        finally:
            cls.folder.cleanup()
        for secret in SECRETS:
            assert secret not in text, secret

    def setUp(self):
        super().setUp()
        self.server.key = "sk-all"

    def as_key(self, key):
        return {"X-Api-Key": key}


class Roles(KeyTest):
    def test_a_role_opens_its_routes_and_no_other(self):
        load = {"lora_name": "rain", "lora_path": "weather"}
        for method, path, body, allowed in [
            ("POST", "/generate", SHORT, {"serving", "all"}),
            ("POST", "/v1/completions", COMPLETION, {"serving", "all"}),
            ("POST", "/tokenize", {"inputs": "a"}, {"serving", "all"}),
            ("GET", "/metrics", None, {"prometheus", "all"}),
            ("GET", "/v1/models", None, {"serving", "operator", "prometheus", "all"}),
            ("GET", "/version", None, {"serving", "operator", "prometheus", "all"}),
            ("GET", "/openapi.json", None, {"serving", "operator", "prometheus", "all"}),
            ("POST", "/v1/load_lora_adapter", load, {"operator"}),
            ("POST", "/v1/unload_lora_adapter", {"lora_name": "rain"}, {"operator"}),
        ]:
            for key, name in [("sk-serve", "serving"), ("sk-metrics", "prometheus"), ("sk-admin", "operator"), ("sk-all", "all")]:
                if name == "all" and "lora" in path:
                    continue
                answer = self.server.ask(method, path, body, headers=self.as_key(key))
                if name in allowed:
                    self.assertEqual(answer.status, 200, (path, name, answer))
                elif path.startswith("/v1"):
                    self.assertEqual((answer.status, answer.json()["error"]["code"]), (403, "role_not_allowed"), (path, name))
                else:  # LoRAX's client takes 403 for a shard that is not ready
                    self.assertEqual((answer.status, answer.json()["error_type"]), (401, "authentication"), (path, name))
        for key in ["sk-none", "name=serving", "serving"]:
            self.assertEqual(self.server.get("/v1/models", headers=self.as_key(key)).status, 401)
        self.assertEqual(self.server.get("/health", headers=self.as_key("sk-none")).status, 200)

    def test_version(self):
        version = self.server.get("/version").json()
        self.assertEqual(version, {"version": self.server.get("/info").json()["version"]})


class Rates(KeyTest):
    def within(self, seconds, ask):
        """Result of ask(i), with the first i whose call took less time: budgets fill while a busy machine waits."""
        for i in range(TRIES):
            began = time.monotonic()
            result = ask(i)
            if time.monotonic() - began < seconds:
                return i, result
        self.skipTest("this machine is too busy for minutes")

    def test_requests_a_minute(self):
        def limits(answer):
            return [answer.headers.get("x-ratelimit-%s-requests" % of) for of in ["limit", "remaining", "reset"]]

        bodies = [("/generate", SHORT)] * 4 + [("/generate_stream", SHORT), ("/tokenize", {"inputs": "a"}), ("/v1/completions", COMPLETION),
                                               ("/v1/completions", COMPLETION | {"stream": True}), ("/v1/messages", {})]
        which, answers = self.within(20, lambda i: [self.server.post(path, body, headers=self.as_key("sk-few%d" % i)) for path, body in bodies])
        for left, answer in zip([2, 1, 0], answers):
            self.assertEqual(answer.status, 200, answer)
            limit, remaining, reset = limits(answer)
            self.assertEqual((limit, remaining), ("3", str(left)))
            self.assertRegex(reset, r"^(\d+m)?[\d.]+s$")
            self.assertNotIn("x-ratelimit-limit-tokens", answer.headers)
        for answer in answers[3:6]:
            self.assertEqual((answer.status, answer.json()["error_type"]), (429, "rate_limited"))
            self.assertIn(int(answer.headers["retry-after"]), range(1, 21))
            self.assertNotIn("sk-", answer.text())
        for answer in answers[6:8]:
            error = answer.json()["error"]
            self.assertEqual((answer.status, error["type"], error["code"]), (429, "rate_limit_error", "rate_limit_exceeded"))
            self.assertEqual(limits(answer)[:2], ["3", "0"])
        self.assertEqual((answers[8].status, answers[8].json()["error"]["type"]), (429, "rate_limit_error"))
        self.assertEqual(self.server.post("/generate", SHORT).status, 200)  # others are not concerned
        self.assertEqual(self.server.get("/v1/models", headers=self.as_key("sk-few%d" % which)).status, 200)
        self.assertEqual(self.server.metrics()['tenon_key_rate_limited_total{key="few%d"}' % which], 5)

    def test_tokens_a_minute_count_what_was_used(self):
        seconds = 8  # in which a budget of 120 a minute grows by 16

        def ask(i):
            def one(tokens, eos=True):
                body = {"prompt": KING, "max_tokens": tokens, "ignore_eos": eos, "stop": [] if eos else [" "], "temperature": 0}
                return self.server.post("/v1/completions", body, headers=self.as_key("sk-tokens%d" % i))

            # A stop string ends the second one after a token or two: the rest is given back. More than a minute's budget, as the last
            # one takes, needs a full one.
            return one(40), one(60, eos=False), one(100), one(8), one(1000)

        _, (first, early, refused, small, large) = self.within(seconds, ask)
        used = first.json()["usage"]["total_tokens"]
        self.assertEqual(first.headers["x-ratelimit-limit-tokens"], "120")
        self.assertIn(int(first.headers["x-ratelimit-remaining-tokens"]), range(120 - used, 120 - used + 2 * seconds + 1))
        self.assertEqual(early.status, 200)
        used += early.json()["usage"]["total_tokens"]
        self.assertLess(used, 80)
        self.assertIn(int(early.headers["x-ratelimit-remaining-tokens"]), range(120 - used, 120 - used + 2 * seconds + 1))
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "rate_limit_exceeded"))
        self.assertIn("tokens a minute", refused.json()["error"]["message"])
        self.assertEqual((small.status, large.status), (200, 429))

    def test_a_share_bounds_what_is_under_way(self):
        long = {"prompt": KING, "max_tokens": 900, "ignore_eos": True, "stream": True}

        def refused():  # unless the long one has ended before
            with self.server.stream("/v1/completions", long, headers=self.as_key("sk-share")) as stream:
                next(stream)
                answer = self.server.post("/generate", SHORT, headers=self.as_key("sk-share"))
                self.assertEqual(self.server.post("/generate", SHORT).status, 200)
            return answer.status == 429 and answer

        self.assertEqual(eventually(refused).json()["error_type"], "overloaded")
        eventually(lambda: self.server.post("/generate", SHORT, headers=self.as_key("sk-share")).status == 200)


class Usage(KeyTest):
    def test_metrics_and_log_name_keys_and_never_show_them(self):
        before = self.server.metrics()

        def grown(name):
            return self.server.metrics().get(name, 0) - before.get(name, 0)

        for _ in range(3):
            self.server.post("/generate", SHORT, headers=self.as_key("sk-serve"))
        adapter = {"inputs": KING, "parameters": {"max_new_tokens": 4, "adapter_id": "weather", "ignore_eos_token": True}}
        answer = self.server.post("/generate", adapter, headers={"Authorization": "Bearer sk-serve"})
        self.assertEqual(answer.status, 200)
        for key, of, name, count in [("serving", "__base_model__", "requests", 3), ("serving", "weather", "requests", 1),
                                     ("serving", "__base_model__", "generated_tokens", 12), ("serving", "weather", "generated_tokens", 4)]:
            self.assertEqual(grown('tenon_key_%s_total{key="%s",adapter="%s"}' % (name, key, of)), count)
        line = self.server.line(answer.headers["x-request-id"])
        self.assertEqual((line["key"], line["adapter"]), ("serving", "weather"))
        answer = self.server.post("/generate", SHORT)
        self.assertRegex(self.server.line(answer.headers["x-request-id"])["key"], "^key-[0-9a-f]{8}$")
        answer = self.server.get("/v1/models", headers=self.as_key("sk-admin"))
        self.assertEqual(self.server.line(answer.headers["x-request-id"])["key"], "operator")
        text = self.server.get("/metrics").text()
        for secret in SECRETS:
            self.assertNotIn(secret, text)

    def test_a_trace_reaches_the_log(self):
        trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        for method, path, body in [("POST", "/v1/completions", COMPLETION), ("POST", "/generate_stream", SHORT), ("GET", "/v1/models", None)]:
            answer = self.server.ask(method, path, body, headers={"traceparent": "00-%s-%s-01" % (trace, span)} | self.as_key("sk-all"))
            line = self.server.line(answer.headers["x-request-id"])
            self.assertEqual((line["trace_id"], line["span_id"], line["trace_flags"]), (trace, span, "01"))
        answer = self.server.get("/v1/models", headers={"traceparent": "00-%s-%s-01" % ("0" * 32, span)} | self.as_key("sk-all"))
        self.assertNotIn("trace_id", self.server.line(answer.headers["x-request-id"]))


class Reload(unittest.TestCase):
    def test_sighup_reads_the_keys_again(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"

            def write(text):
                (pathlib.Path(folder) / "new").write_text(text)
                os.replace(pathlib.Path(folder) / "new", keys)

            write("old-key name=team requests-a-minute=1\n")
            with Server("--api-key-file", keys) as server:
                def status(key, path="/v1/models"):
                    return server.get(path, headers={"X-Api-Key": key}).status

                def spend(key):
                    return server.post("/generate", SHORT, headers={"X-Api-Key": key}).status

                self.assertEqual([spend("old-key"), spend("old-key")], [200, 429])
                self.assertEqual(status("new-key"), 401)
                long = {"inputs": KING, "parameters": {"max_new_tokens": 300, "ignore_eos_token": True}}
                write("new-key name=team requests-a-minute=1\nother-key name=other roles=metrics\n")
                server.signal(signal.SIGHUP)
                eventually(lambda: "the keys were read again" in server.text())
                self.assertEqual((status("old-key"), status("new-key"), status("other-key")), (401, 200, 200))
                self.assertEqual(spend("new-key"), 429)  # a new key is no new minute
                self.assertEqual((status("other-key", "/metrics"), spend("other-key")), (200, 401))
                # What is wrong changes nothing, and is named without a word of it.
                for wrong in ["", "# none\n", "new-key se%cret\n", "se%cret\n"]:
                    said = server.text().count("not read again")
                    write(wrong)
                    server.signal(signal.SIGHUP)
                    eventually(lambda: server.text().count("not read again") > said)
                    self.assertEqual((status("old-key"), status("new-key")), (401, 200))
                keys.unlink()
                said = server.text().count("not read again")
                server.signal(signal.SIGHUP)
                eventually(lambda: server.text().count("not read again") > said)
                self.assertEqual(status("new-key"), 200)
                for secret in ["old-key", "new-key", "other-key", "cret"]:
                    self.assertNotIn(secret, server.text())
                # A request that runs ends, whatever becomes of its key.
                write("new-key name=team\nlast-key name=last\n")
                server.signal(signal.SIGHUP)
                eventually(lambda: status("last-key") == 200)
                with server.stream("/generate_stream", long, headers={"X-Api-Key": "last-key"}) as stream:
                    next(stream)
                    write("new-key name=team\n")
                    server.signal(signal.SIGHUP)
                    eventually(lambda: status("last-key") == 401)
                    self.assertEqual(sum(1 for _ in stream), 299)
                self.assertEqual(server.stop(), 0)

    def test_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("one\n")
            with Server("--api-key-file", keys) as server:
                end = time.monotonic() + 2
                statuses = []

                def ask():
                    connection = server.connection()
                    while time.monotonic() < end:
                        statuses.append(server.get("/v1/models", headers={"X-Api-Key": "one"}, connection=connection).status)
                    connection.close()

                def hang_up():
                    while time.monotonic() < end:
                        server.signal(signal.SIGHUP)
                        time.sleep(0.01)

                serving.all_at_once([ask, ask, ask, hang_up])
                self.assertEqual(set(statuses), {200})
                self.assertEqual(server.stop(), 0)


class Description(ServerTest):
    def test_it_names_the_routes_that_answer(self):
        described = self.server.get("/openapi.json").json()
        self.assertEqual(described["openapi"], "3.1.0")
        self.assertNotIn("securitySchemes", described["components"])
        for path, methods in described["paths"].items():
            for method in methods:
                answer = self.server.ask(method.upper(), path.replace("{name}", "tales"), {} if method == "post" else None)
                self.assertNotIn(answer.status, [404, 405], path)
                allowed = described["paths"][path][method]["responses"]
                self.assertTrue(str(answer.status) in allowed or "default" in allowed)
        for path in ["/generate", "/v1/completions", "/metrics"]:
            self.assertIn(path, described["paths"])
        self.assertNotIn("/v1/load_lora_adapter", described["paths"])

    def test_its_schemas_are_those_of_the_parser(self):
        """Each property is known to the parser, and without the required ones nothing is served."""
        schemas = self.server.get("/openapi.json").json()["components"]["schemas"]
        for path, name, text in [("/v1/completions", "CompletionsBody", "prompt"), ("/generate", "Generate", "inputs"),
                                 ("/tokenize", "Tokenize", "inputs")]:
            self.assertIn(schemas[name].get("required"), [[text], None])
            self.assertIn(self.server.post(path, {}).status, [400, 422])
            for known in schemas[name]["properties"]:
                answer = self.server.post(path, {known: None} | {text: "a"})
                self.assertEqual(answer.status, 200, (path, known, answer))


if __name__ == "__main__":
    serving.main()
