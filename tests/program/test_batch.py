"""tenon run with lines of OpenAI's batch files."""
import json
import pathlib
import struct
import time

import support
from chat_support import TEMPLATE, ChatTest, messages
from support import TALES

TEMPLATES = pathlib.Path(__file__).resolve().parents[1] / "chat" / "templates"

HELLO = messages(("user", "Hello"))


def float32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def line(custom_id, body, url="/v1/chat/completions", **more):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body, **more}


class Batch(ChatTest):
    def body(self, answer):
        self.assertEqual(list(answer), ["id", "custom_id", "response", "error"])
        self.assertEqual((answer["response"]["status_code"], answer["error"]), (200, None), answer)
        return answer["response"]["body"]

    def test_chat_completions(self):
        before = int(time.time())
        sampling = {"temperature": 0.8, "top_p": 0.9, "seed": 3, "presence_penalty": 0.5, "frequency_penalty": 0.25,
                    "logit_bias": {"5": -2}, "top_k": 40}
        body = {"model": "any", "messages": HELLO, "max_completion_tokens": 8, "user": "u", "metadata": {"a": "b"}, "stream": False, **sampling}
        requests = [line("a", body), {"messages": HELLO, "max_new_tokens": 8, **sampling},
                    line("b", {"messages": HELLO, "max_tokens": 5, "temperature": 0}), {"messages": HELLO, "max_new_tokens": 5}]
        a, plain_a, b, plain_b = self.lines(self.chat_model(), requests)
        self.assertEqual((a["id"], a["custom_id"], b["custom_id"]), ("batch_req_1", "a", "b"))
        chat = self.body(a)
        self.assertEqual(list(chat), ["id", "object", "created", "model", "choices", "usage"])
        self.assertEqual((chat["object"], chat["model"]), ("chat.completion", "any"))
        self.assertTrue(before <= chat["created"] <= time.time())
        (choice,) = chat["choices"]
        self.assertEqual(choice["message"], {"role": "assistant", "content": plain_a["text"], "refusal": None})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, plain_a["finish_reason"], None))
        prompt, written = len(self.prompt(("user", "Hello"))), len(plain_a["output_ids"])
        self.assertEqual(chat["usage"], {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written})
        self.assertEqual(self.body(b)["choices"][0]["message"]["content"], plain_b["text"])
        self.assertEqual(self.body(b)["model"], "chat-model")

    def test_parts_tools_and_variables(self):
        template = ("{{ tools[0].function.name if tools else '' }}{% for m in messages %}{{ m.role }}: {{ m.content }}"
                    "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments.x }}{% endfor %};{% endfor %}{{ mood }}")
        said = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 7}'}}]},
                {"role": "tool", "tool_call_id": "1", "content": "ok"}]
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        common = {"max_tokens": 6, "temperature": 0, "messages": said, "chat_template_kwargs": {"mood": "!"}}
        requests = [line(1, {}), line("with", dict(common, tools=tools)), line("none", dict(common, tools=tools, tool_choice="none")),
                    {"prompt": "fuser: ab;assistant: f7;tool: ok;!", "max_new_tokens": 6}, {"prompt": "user: ab;assistant: f7;tool: ok;!", "max_new_tokens": 6}]
        bad, *answers = self.lines(self.chat_model(template), requests, status=1)
        self.assertIn("custom_id", bad["response"]["body"]["error"]["message"])
        for answer, plain in zip(answers[:2], answers[2:]):
            self.assertEqual(self.body(answer)["choices"][0]["message"]["content"], plain["text"])

    WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}}}
    CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {
        "type": "object", "properties": {"zone": {"type": "string", "maxLength": 6}}, "required": ["zone"], "additionalProperties": False}}}

    def check_calls(self, choice, most, names):
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
        calls = choice["message"]["tool_calls"]
        self.assertTrue(1 <= len(calls) <= most, calls)
        for call in calls:
            self.assertEqual(call["type"], "function")
            arguments = json.loads(call["function"]["arguments"])
            self.assertIn(call["function"]["name"], names)
            if call["function"]["name"] == "get_weather":
                self.assertEqual(set(arguments), {"city", "days"})
                self.assertTrue(arguments["city"] in ["Rome", "Oslo"] and 1 <= arguments["days"] <= 9, arguments)
            else:
                self.assertEqual(set(arguments), {"zone"})
        return [call["id"] for call in calls]

    def test_calls_in_every_style(self):
        both = ["get_weather", "get_time"]
        for style in ["qwen25", "mistral_v3", "chatml", "smollm2"]:
            template = (TEMPLATES / (style + ".jinja")).read_text(encoding="utf-8")
            body = {"messages": HELLO, "tools": [self.WEATHER, self.CLOCK], "max_tokens": 200, "seed": 3, "n": 2}
            requests = [line("required", dict(body, tool_choice="required")),
                        line("one", dict(body, tool_choice="required", parallel_tool_calls=False)),
                        line("named", dict(body, tool_choice={"type": "function", "function": {"name": "get_time"}}))]
            answers = self.lines(self.chat_model(template, style), requests)
            ids = []
            for answer, most, names in zip(answers, [16, 1, 1], [both, both, ["get_time"]]):
                for choice in self.body(answer)["choices"]:
                    ids += self.check_calls(choice, most, names)
            self.assertEqual(len(set(ids)), len(ids))
            self.assertEqual({len(i) for i in ids}, {9 if style == "mistral_v3" else 14})
            self.assertEqual(self.lines(self.chat_model(template, style), requests)[2]["response"]["body"]["choices"],
                             answers[2]["response"]["body"]["choices"])

    def test_calls_that_may_come(self):
        model = self.chat_model((TEMPLATES / "chatml.jinja").read_text(encoding="utf-8"))
        body = {"messages": HELLO, "max_tokens": 12, "temperature": 0}
        auto, none, plain, cut = self.lines(model, [
            line("auto", dict(body, tools=[self.CLOCK])), line("none", dict(body, tools=[self.CLOCK], tool_choice="none")), line("plain", body),
            line("cut", dict(body, tools=[self.CLOCK], tool_choice="required", max_tokens=3))])
        self.assertNotIn("tool_calls", self.body(auto)["choices"][0]["message"])
        self.assertGreater(self.body(auto)["usage"]["prompt_tokens"], self.body(plain)["usage"]["prompt_tokens"] + 20)  # the tools are told
        self.assertEqual(self.body(none)["choices"], self.body(plain)["choices"])
        self.assertEqual(self.body(cut)["choices"][0]["finish_reason"], "length")

    def test_reasoning_is_told_apart(self):
        thinks = TEMPLATE.replace("assistant\n", "assistant<think>\n")
        (answer,) = self.lines(self.chat_model(thinks), [line("a", {"messages": HELLO, "max_tokens": 5, "temperature": 0})])
        message = self.body(answer)["choices"][0]["message"]
        self.assertEqual(message["content"], "")
        self.assertTrue(message["reasoning_content"])

    def test_tools_beside_a_format(self):
        """Answers are calls, or else a text of the format; calls that must come leave no text."""
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}}}
        body = {"messages": HELLO, "max_tokens": 100, "tools": [self.CLOCK], "response_format": form}
        answers = self.lines(self.chat_model(), [line(str(i), dict(body, seed=i, temperature=1)) for i in range(4)] +
                             [line("none", dict(body, tool_choice="none")), line("required", dict(body, tool_choice="required"))])
        for answer in answers:
            message = answer["response"]["body"]["choices"][0]["message"]
            if answer["custom_id"] in ("none", "required"):
                self.assertEqual("tool_calls" in message, answer["custom_id"] == "required", answer)
            if "tool_calls" in message:
                self.assertEqual(message["tool_calls"][0]["function"]["name"], "get_time")
            else:
                self.assertIn(json.loads(message["content"])["a"], (True, False))

    def test_tools_that_are_refused(self):
        loose = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}}}
        strict = {"type": "function", "function": dict(loose["function"], strict=True)}
        named = {"type": "function", "function": {"name": "other"}}
        cases = [({"tools": [strict]}, "tools: f: #/properties/a/$dynamicRef"), ({"tools": [loose], "tool_choice": "required"}, "tools: f: #"),
                 ({"tools": {}}, "body.tools"), ({"tools": [{}]}, "body.tools[0]"), ({"tools": [{"type": "x", "function": {"name": "f"}}]}, "body.tools[0]"),
                 ({"tools": [{"function": {"name": "a b"}}]}, "body.tools[0].function.name"), ({"tools": [self.CLOCK, self.CLOCK]}, "get_time"),
                 ({"tools": [{"function": {"name": "f", "parameters": []}}]}, "body.tools[0].function.parameters"),
                 ({"tools": [self.CLOCK], "tool_choice": named}, "body.tool_choice"), ({"tools": [self.CLOCK], "tool_choice": "some"}, "body.tool_choice"),
                 ({"tools": [self.CLOCK], "tool_choice": 5}, "body.tool_choice"),
                 ({"tools": [self.CLOCK], "parallel_tool_calls": "no"}, "body.parallel_tool_calls")]
        requests = [line("a", dict(messages=HELLO, max_tokens=2, **more)) for more, _ in cases]
        answers = self.lines(self.chat_model(), requests + [line("b", {"messages": HELLO, "max_tokens": 2, "tools": [loose]})], status=1)
        for (case, named), answer in zip(cases, answers):
            self.assertIn(named, answer["response"]["body"]["error"]["message"], case)
        self.body(answers[-1])

    def test_completions(self):
        ids = self.tokens("The rain")
        url = "/v1/completions"
        requests = [line("text", {"prompt": "The rain", "temperature": 0}, url), line("list", {"prompt": ["The rain"], "temperature": 0}, url),
                    line("ids", {"prompt": ids, "temperature": 0, "stop": "e"}, url), {"prompt": "The rain", "max_new_tokens": 16},
                    {"prompt": "The rain", "max_new_tokens": 16, "stop": ["e"]}]
        *answers, plain, stopped = self.lines(TALES, requests)
        for answer in answers[:2]:
            body = self.body(answer)
            self.assertEqual((body["object"], body["model"]), ("text_completion", "tales"))
            self.assertEqual(body["choices"], [{"index": 0, "text": plain["text"], "logprobs": None, "finish_reason": plain["finish_reason"]}])
            self.assertEqual(body["usage"]["prompt_tokens"], len(ids))
        self.assertEqual(self.body(answers[2])["choices"][0]["text"], stopped["text"])

    def test_choices_and_logprobs(self):
        body = {"messages": HELLO, "max_tokens": 4, "n": 3, "seed": 1, "logprobs": True, "top_logprobs": 2}
        url = "/v1/completions"
        chat, text, plain = self.lines(self.chat_model(), [
            line("a", body), line("b", {"prompt": "Hello", "max_tokens": 4, "temperature": 0, "logprobs": 1}, url),
            {"messages": HELLO, "max_new_tokens": 4, "n": 3, "seed": 1, "temperature": 1, "top_logprobs": 2}])
        choices = self.body(chat)["choices"]
        self.assertEqual([c["message"]["content"] for c in choices], [c["text"] for c in plain["choices"]])
        self.assertEqual([c["index"] for c in choices], [0, 1, 2])
        for mine, theirs in zip(choices, plain["choices"]):
            listed = mine["logprobs"]["content"]
            self.assertEqual([t["logprob"] for t in listed], [float32(x) for x in theirs["logprobs"]])
            for token, top in zip(listed, theirs["top_logprobs"]):
                self.assertEqual([t["logprob"] for t in token["top_logprobs"]], [float32(t["logprob"]) for t in top])
                self.assertEqual(bytes(token["bytes"]).decode("utf-8", "replace"), token["token"])
        logprobs = self.body(text)["choices"][0]["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), self.body(text)["choices"][0]["text"])
        self.assertEqual(logprobs["text_offset"], [len("".join(logprobs["tokens"][:i])) for i in range(4)])
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            self.assertEqual(top, {token: logprob})

    def test_alternatives_that_read_alike(self):
        body = {"prompt": "Hello", "max_tokens": 2, "temperature": 0, "logprobs": 2, "logit_bias": {"225": 100}}
        (answer,) = self.lines(self.chat_model(), [line("a", body, "/v1/completions")])
        logprobs = self.body(answer)["choices"][0]["logprobs"]
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            self.assertEqual((top[token], len(top)), (logprob, 3))  # the chosen one, which is unlikely, and two

    def test_formats(self):
        schema = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"enum": [1, 2]}}, "required": ["b", "a"], "additionalProperties": False}
        named = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
        answers = self.lines(self.chat_model(), [
            line("schema", {"messages": HELLO, "max_tokens": 40, "response_format": named}),
            line("text", {"messages": HELLO, "max_tokens": 4, "response_format": {"type": "text"}}),
            line("choice", {"messages": HELLO, "max_tokens": 9, "choice": ["red", "blue"]})])
        found = json.loads(self.body(answers[0])["choices"][0]["message"]["content"])
        self.assertEqual(list(found), ["b", "a"])
        self.assertIn(self.body(answers[2])["choices"][0]["message"]["content"], ["red", "blue"])

    def test_equal_lines_draw_different_answers(self):
        requests = [line(str(i), {"messages": HELLO, "max_tokens": 12}) for i in range(3)]
        first, second = self.lines(self.chat_model(), requests), self.lines(self.chat_model(), requests)
        texts = [self.body(a)["choices"][0]["message"]["content"] for a in first]
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(texts, [self.body(a)["choices"][0]["message"]["content"] for a in second])

    def test_an_answer_may_fill_the_context(self):
        request = line("a", {"messages": HELLO, "temperature": 0, "ignore_eos": True})
        (answer,) = self.lines(self.chat_model(), [request], "--positions", 64)
        self.assertEqual(self.body(answer)["usage"]["total_tokens"], 65)  # the last token takes no position

    def test_the_cache_may_be_smaller_than_the_context(self):
        request = line("a", {"messages": HELLO, "temperature": 0, "ignore_eos": True})
        (answer,) = self.lines(self.chat_model(), [request], "--positions", 128, "--cache-tokens", 64)
        self.assertEqual(self.body(answer)["usage"]["total_tokens"], 65)

    def test_members_that_are_null_say_nothing(self):
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "b"}]
        empty = [said[0], {**said[1], "tool_calls": [], "name": None}, said[2]]
        null = [said[0], {**said[1], "tool_calls": None, "refusal": None, "audio": None}, said[2]]
        for template in [TEMPLATE, "{% for m in messages %}{{ m.role }}{% if 'tool_calls' in m %}calls{% endif %}{{ m.content }}{% endfor %}"]:
            bodies = [dict(messages=each, max_tokens=6, temperature=0) for each in (said, empty, null)]
            requests = [line(str(i), body) for i, body in enumerate(bodies)] + [{"messages": null, "max_new_tokens": 6}]
            plain, *others, own = self.lines(self.chat_model(template), requests)
            text = self.body(plain)["choices"][0]["message"]["content"]
            self.assertEqual([self.body(each)["choices"][0]["message"]["content"] for each in others], [text, text])
            self.assertEqual(own["text"], text)

    def test_calls_that_are_none(self):
        def said(calls):
            return {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}, *HELLO], "max_tokens": 2, "temperature": 0}
        cases = [([{"id": "1", "type": "function"}], "tool_calls[0].function"), (["x"], "tool_calls[0].function"), ({}, "tool_calls"),
                 ([{"function": {"arguments": "{}"}}], "function.name"), ([{"function": {"name": 5}}], "function.name"),
                 ([{"function": {"name": "f", "arguments": "[1]"}}], "function.arguments"),
                 ([{"function": {"name": "f", "arguments": "no"}}], "function.arguments")]
        good = said([{"function": {"name": "f"}}])
        answers = self.lines(self.chat_model(), [line("a", said(calls)) for calls, _ in cases] + [line("good", good)], status=1)
        for (calls, named), answer in zip(cases, answers):
            self.assertEqual(answer["response"]["status_code"], 400, calls)
            self.assertIn(named, answer["response"]["body"]["error"]["message"], calls)
        self.assertEqual(self.body(answers[-1])["usage"]["completion_tokens"], 2)

    def test_what_is_refused_is_named(self):
        chat, url = {"messages": HELLO}, "/v1/completions"
        cases = [(line("a", chat, method="GET"), "method"), (line("a", chat, url="/v1/embeddings"), "url"),
                 (line("a", chat, extra=1), "extra"), ({"custom_id": "a", "method": "POST", "url": url}, "body"),
                 (line("a", dict(chat, nonsense=1)), "body.nonsense"), (line("a", dict(chat, stream=True)), "body.stream"),
                 (line("a", dict(chat, temperature="hot")), "temperature"), (line("a", {}), "body.messages"),
                 (line("a", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "messages[0].content"),
                 (line("a", dict(chat, tool_choice="required")), "body.tool_choice"),
                 (line("a", dict(chat, top_logprobs=1)), "body.top_logprobs"),
                 (line("a", dict(chat, max_tokens=1, max_completion_tokens=2)), "body.max_tokens"),
                 (line("a", dict(chat, response_format={"type": "xml"})), "body.response_format"),
                 (line("a", {"prompt": ["a", "b"]}, url), "body.prompt"), (line("a", {"prompt": "a", "echo": True}, url), "body.echo"),
                 (line("a", {"prompt": ""}, url), "prompt"), (line("a", dict(chat, stop=[1])), "stop")]
        answers = self.lines(self.chat_model(), [case for case, _ in cases] + [line("good", dict(chat, max_tokens=2))], status=1)
        for (case, named), answer in zip(cases, answers):
            self.assertEqual(answer["custom_id"], "a")
            self.assertEqual((answer["response"]["status_code"], answer["error"]), (400, None))
            error = answer["response"]["body"]["error"]
            self.assertIn(named, error["message"], case)
            self.assertEqual(error["type"], "invalid_request_error")
        self.assertEqual(self.body(answers[-1])["usage"]["completion_tokens"], 2)


if __name__ == "__main__":
    support.main()
