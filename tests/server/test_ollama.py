"""Ollama's API: what its routes answer, beside the same questions on OpenAI's routes."""
import json
import unittest

from serving import Server
from test_chat import chat

QUESTION = [{"role": "user", "content": "Who is the king?"}]
GREEDY = {"temperature": 0, "num_predict": 12}
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", "plain")
        cls.addClassCleanup(cls.server.kill)

    def ask(self, path="/api/chat", status=200, server=None, **more):
        body = {"model": "tales", "stream": False, "options": GREEDY} | ({"messages": QUESTION} if path == "/api/chat" else {})
        answer = (server or self.server).post(path, body | more)
        self.assertEqual(answer.status, status, answer)
        return answer.json()

    def lines(self, path, **more):
        answer = self.server.post(path, {"options": GREEDY} | more)
        self.assertEqual(answer.headers["content-type"], "application/x-ndjson")
        return [json.loads(line) for line in answer.text().splitlines()]

    def test_a_chat_is_that_of_openai(self):
        wanted = chat(self.server, max_tokens=12)["choices"][0]["message"]["content"]
        whole = self.ask()
        self.assertEqual(whole["message"], {"role": "assistant", "content": wanted})
        self.assertEqual((whole["done"], whole["done_reason"], whole["eval_count"]), (True, "length", 12))
        self.assertRegex(whole["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertGreaterEqual(whole["total_duration"], whole["prompt_eval_duration"] + whole["eval_duration"])
        self.assertGreater(whole["eval_duration"], 0)
        lines = self.lines("/api/chat", messages=QUESTION)  # streams, unless it is told not to
        self.assertEqual("".join(line["message"]["content"] for line in lines), wanted)
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])

    def test_prompts_go_through_the_template_unless_raw(self):
        text = self.ask("/api/generate", prompt=QUESTION[0]["content"])
        self.assertEqual(text["response"], self.ask()["message"]["content"])
        raw = self.ask("/api/generate", prompt="The king said", raw=True)
        wanted = self.server.post("/v1/completions", {"prompt": "The king said", "max_tokens": 12, "temperature": 0}).json()
        self.assertEqual(raw["response"], wanted["choices"][0]["text"])
        with Server() as plain:  # a model without a template
            self.assertEqual(self.ask("/api/generate", server=plain, prompt="The king said")["response"], raw["response"])
            self.assertIn("`system`", self.ask("/api/generate", 400, plain, prompt="x", system="y")["error"])

    def test_sampling_is_that_of_ollama(self):
        """0.8, 40 and 0.9, if the request does not say otherwise."""
        for seed in range(5):
            drawn = self.ask(options={"num_predict": 12, "seed": seed})["message"]["content"]
            same = chat(self.server, max_tokens=12, temperature=0.8, top_k=40, top_p=0.9, seed=seed)
            self.assertEqual(drawn, same["choices"][0]["message"]["content"])
            other = chat(self.server, max_tokens=12, temperature=1, top_k=40, top_p=0.9, seed=seed)
            own = self.ask(options={"num_predict": 12, "seed": seed, "temperature": 1.0})
            self.assertEqual(own["message"]["content"], other["choices"][0]["message"]["content"])

    def test_what_asks_for_no_text_says_that_the_model_is_there(self):
        for path in ["/api/chat", "/api/generate"]:
            loaded = self.server.post(path, {"model": "tales"}).json()
            self.assertEqual((loaded["done"], loaded["done_reason"]), (True, "load"))
            self.assertEqual(self.server.post(path, {"model": "nobody"}).status, 404)

    def test_formats(self):
        self.assertEqual(set(json.loads(self.ask(format=SCHEMA)["message"]["content"])), {"a"})
        self.assertEqual(self.ask(format="json")["message"]["content"][0], "{")

    def test_contexts_of_the_client_are_named(self):
        body = {"messages": QUESTION, "stream": False, "options": GREEDY}
        for context, named in [(64, "options.num_ctx"), (1024, None), (32768, None)]:
            answer = self.server.post("/api/chat", body | {"options": GREEDY | {"num_ctx": context}})
            self.assertEqual(answer.headers.get("x-ignored-fields"), named)

    def test_refusals_have_the_names_of_the_client(self):
        for more, name in [({"options": {"num_predict": "x"}}, "options.num_predict"), ({"options": {"top_p": 2}}, "options.top_p"),
                           ({"options": {"nothing": 1}}, "options.nothing"), ({"nothing": 1}, "nothing"), ({"format": 5}, "format"),
                           ({"messages": [QUESTION[0] | {"images": ["eA=="]}]}, "messages[0].images"),
                           ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
                            "messages[0].tool_calls[0].function.arguments"),
                           ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"), ({"template": "x"}, "template")]:
            path = "/api/generate" if "template" in more else "/api/chat"
            refused = self.ask(path, 400, **more, **({"prompt": "x"} if path == "/api/generate" else {}))
            self.assertEqual(set(refused), {"error"})
            self.assertIn("`%s`" % name, refused["error"])
        too_long = self.ask("/api/generate", 400, prompt="The king said " * 2000)
        self.assertIn("`prompt`", too_long["error"])
        self.assertEqual(self.server.get("/api/nope").json(), {"error": "there is no such route"})

    def test_what_is_served(self):
        tags = self.server.get("/api/tags").json()["models"]
        self.assertEqual([m["name"] for m in tags], [m["id"] for m in self.server.get("/v1/models").json()["data"]])
        self.assertEqual(tags[0]["details"]["parameter_size"], "6M")
        self.assertEqual(self.server.get("/api/ps").json()["models"][0]["name"], tags[0]["name"])
        shown = self.ask("/api/show", status=400)  # `stream` and `options` are none of its fields
        self.assertIn("error", shown)
        shown = self.server.post("/api/show", {"name": "weather"}).json()
        self.assertEqual((shown["details"]["parent_model"], shown["capabilities"]), ("tales", ["completion", "tools"]))
        self.assertEqual(self.server.post("/api/show", {"model": "nobody"}).status, 404)

    def test_embeddings(self):
        two = self.server.post("/api/embed", {"model": "tales", "input": ["The king", "Rain"]}).json()
        one = self.server.post("/v1/embeddings", {"input": "The king"}).json()
        self.assertEqual(two["embeddings"][0], one["data"][0]["embedding"])
        self.assertEqual(len(two["embeddings"]), 2)
        self.assertEqual(len(self.server.post("/api/embeddings", {"prompt": "Rain"}).json()["embedding"]), len(two["embeddings"][1]))
        long = {"input": "The king said " * 2000}
        self.assertEqual(self.server.post("/api/embed", long).status, 200)
        self.assertEqual(self.server.post("/api/embed", long | {"truncate": False}).status, 400)


if __name__ == "__main__":
    import serving
    serving.main()
