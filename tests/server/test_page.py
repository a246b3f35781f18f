"""The page for browsers and its data: served correctly, and consistent with the metrics.

scripts/check-browser tests the page in a browser.
"""
import concurrent.futures
import tempfile

import serving
from serving import Server, ServerTest


class Page(ServerTest):
    def test_it_is_one_small_file_that_loads_nothing_else(self):
        answer = self.server.get("/ui")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
        policy = answer.headers["content-security-policy"]
        for needed in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"]:
            self.assertIn(needed, policy)
        self.assertEqual(answer.body, (serving.ROOT / "apps" / "serve" / "page" / "page.html").read_bytes())
        self.assertLess(len(answer.body), 100_000)
        for loads in ["src=\"http", "href=\"http", "src='http", "@import", "url(http"]:
            self.assertNotIn(loads, answer.text())

    def test_a_number_is_needed(self):
        for since in ["", "?since=", "?since=-1", "?since=x", "?since=1x", "?since=99999999999999999999999"]:
            self.assertEqual(self.server.get("/ui/steps" + since).status, 422, since)


class Steps(ServerTest):
    FLAGS = ["--draft", "none"]  # each new token has one row

    def test_steps_agree_with_the_metrics(self):
        def named(answer):  # each answer numbers adapters anew
            return [step | {"rows": [[place, answer["adapters"][adapter], *counts] for place, adapter, *counts in step["rows"]]}
                    for step in answer["steps"]]

        asked = [("tales", 9), ("weather", 30), ("shakespeare", 1), ("weather", 17), ("characters", 5), ("tales", 24)]

        def complete(model_and_tokens):
            model, tokens = model_and_tokens
            answer = self.server.post("/v1/completions", {"model": model, "prompt": "The king said that", "max_tokens": tokens,
                                                          "temperature": 0, "ignore_eos": True})
            self.assertEqual(answer.status, 200, answer.text())
            return answer.json()["usage"]

        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            usages = list(pool.map(complete, asked))
        drawn = self.server.get("/ui/steps?since=0").json()
        metrics = self.server.metrics()
        steps = drawn["steps"]
        self.assertEqual([s["step"] for s in steps], list(range(1, drawn["last"] + 1)))
        rows = [row for step in steps for row in step["rows"]]

        self.assertEqual(len(steps), metrics["lorax_batch_next_size_count"])
        self.assertEqual(len(rows), metrics["lorax_batch_next_size_sum"])
        self.assertEqual(drawn["tokens"], sum(usage["completion_tokens"] for usage in usages))
        found = metrics["tenon_prefix_hit_tokens_total"]
        self.assertEqual(sum(prompt for _, _, _, prompt in rows) + found, sum(usage["prompt_tokens"] for usage in usages))
        # Rows of each text: the prompt, then one for each new token except the last, which is never fed back.
        self.assertEqual(sum(tokens - prompt for _, _, tokens, prompt in rows),
                         sum(usage["completion_tokens"] - 1 for usage in usages))
        by_adapter = {name: 0 for name, _ in asked}
        for _, adapter, tokens, prompt in rows:
            by_adapter[drawn["adapters"][adapter] or "tales"] += tokens - prompt
        self.assertEqual(by_adapter, {"tales": 8 + 23, "weather": 29 + 16, "shakespeare": 0, "characters": 4})

        for step in steps:
            places = [place for place, _, _, _ in step["rows"]]
            self.assertEqual(places, sorted(set(places)))
            self.assertLess(max(places), drawn["places"])
            self.assertGreater(step["ms"], 0)
        times = [step["at_ms"] for step in steps]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], drawn["now_ms"])
        self.assertEqual((drawn["running"], drawn["waiting"]), (metrics['vllm:num_requests_running{model_name="tales"}'], 0))

        later = self.server.get("/ui/steps?since=%d" % (drawn["last"] - 3)).json()
        self.assertEqual(named(later), named(drawn)[-3:])
        self.assertEqual((later["boot"], later["chat"]), (drawn["boot"], False))
        self.assertEqual(self.server.get("/ui/steps?since=%d" % drawn["last"]).json()["steps"], [])


class Chat(ServerTest):
    FLAGS = ["--chat-template", "plain"]

    def test_the_page_knows_whether_there_is_a_template(self):
        self.assertIs(self.server.get("/ui/steps?since=0").json()["chat"], True)

    def test_the_page_knows_whether_streams_can_be_continued(self):
        self.assertIs(self.server.get("/ui/steps?since=0").json()["resumable"], False)
        with tempfile.NamedTemporaryFile("w") as key:
            key.write("a secret of at least thirty-two bytes")
            key.flush()
            with Server("--resume-key-file", key.name) as other:
                self.assertIs(other.get("/ui/steps?since=0").json()["resumable"], True)


class Load(ServerTest):
    FLAGS = ["--batch", "2"]

    def test_the_load_agrees_with_the_metrics(self):
        def load():
            metrics = self.server.metrics()
            return [metrics['vllm:%s{model_name="tales"}' % name]
                    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]]

        def between_two_that_agree():  # the load changes with every step
            before, drawn, after = load(), self.server.get("/ui/steps?since=0").json(), load()
            return (before, drawn) if before == after and all(before) else None

        with self.server.stream("/v1/completions", {"prompt": ["The king said that"] * 6, "max_tokens": 1000,
                                                    "ignore_eos": True, "stream": True}) as stream:
            next(stream)
            expected, drawn = serving.eventually(between_two_that_agree)
        self.assertEqual([drawn["running"], drawn["waiting"], drawn["cache_used"]], expected)


class Keys(ServerTest):
    FLAGS = ["--api-key", "right-key"]

    def test_the_page_is_open_and_what_it_shows_is_not(self):
        self.assertEqual(self.server.get("/ui").status, 200)
        self.assertEqual(self.server.get("/ui/steps?since=0").status, 401)
        self.assertEqual(self.server.get("/ui/steps?since=0", headers={"Authorization": "Bearer right-key"}).status, 200)


class OwnOrigin(ServerTest):
    """The page of a server that is open to all machines without a key. It sends requests to the address in the browser."""

    FLAGS = ["--host", "0.0.0.0", "--insecure", "--allowed-host", "Chat.Example", "--cors-origin", "chrome-extension://abc,tauri://localhost"]

    def ask(self, host, origin, path="/v1/completions"):
        body = {"prompt": "The king", "max_tokens": 1}
        headers = {"Host": host} | ({"Origin": origin} if origin else {})
        return self.server.post(path, body if path == "/v1/completions" else {"inputs": "The king"}, headers=headers)

    def test_its_own_page_may_ask(self):
        port = self.server.port
        for host in ["127.0.0.1:%d" % port, "192.0.2.7:%d" % port, "192.0.2.7", "[2001:db8::1]:%d" % port, "localhost:%d" % port, "chat.example",
                     "chat.example:%d" % port]:
            for scheme in ["http", "https"]:
                self.assertEqual(self.ask(host, scheme + "://" + host).status, 200, host)

    def test_named_apps_and_extensions_may_ask(self):
        for origin in ["chrome-extension://abc", "tauri://localhost"]:
            answer = self.ask("192.0.2.7", origin)
            self.assertEqual((answer.status, answer.headers["access-control-allow-origin"]), (200, origin))

    def test_other_pages_may_not(self):
        for host, origin in [("evil.example:8080", "http://evil.example:8080"),  # a name that resolves to this server
                             ("192.0.2.7", "http://evil.example"), ("chat.example", "http://192.0.2.7"), ("192.0.2.7:1", "http://192.0.2.7:2"),
                             ("192.0.2.7", "null"), ("192.0.2.7", "chrome-extension://abd"), ("192.0.2.7", "app://localhost")]:
            answer = self.ask(host, origin)
            self.assertEqual(answer.status, 403, (host, origin))
            error = answer.json()["error"]
            self.assertEqual((error["type"], error["code"]), ("permission_error", "origin_not_allowed"))
            self.assertIn("--allowed-host", error["message"])
            answer = self.ask(host, origin, "/generate")
            self.assertEqual((answer.status, answer.json()["error_type"]), (403, "forbidden"))
        self.assertEqual(self.ask("evil.example:8080", None).status, 200)  # no page: every name of this machine is accepted


class NoPage(ServerTest):
    FLAGS = ["--no-ui"]

    def test_it_can_be_turned_off(self):
        self.assertEqual(self.server.get("/ui").status, 404)
        self.assertEqual(self.server.get("/ui/steps?since=0").status, 404)


if __name__ == "__main__":
    serving.main()
