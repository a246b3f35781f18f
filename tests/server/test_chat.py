"""Chats over HTTP: templates of the model's files, tools, reasoning, and prompts without an answer."""
import contextlib
import json
import os
import pathlib
import random
import tempfile
import unittest

import serving
from serving import ROOT, Server
from test_fields import EOS, MODEL, model_with_begin

TEMPLATES = ROOT / "tests" / "chat" / "templates"
CHATML = (TEMPLATES / "chatml.jinja").read_text(encoding="utf-8")
QUESTION = [{"role": "user", "content": "Who is the king?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string", "maxLength": 6}}, "required": ["zone"], "additionalProperties": False}}}
THINKS = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: <think>\\n' }}{% endif %}"


@contextlib.contextmanager
def server_with(files, *flags):
    """A server of the default model, in a folder of its own with other files beside it."""
    with tempfile.TemporaryDirectory(prefix="tenon-chat-") as name:
        folder = pathlib.Path(name)
        for each in MODEL.iterdir():
            if each.name not in files:
                os.symlink(each, folder / each.name)
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        with Server("--model", folder, *flags) as server:
            yield server


def chat(server, messages=QUESTION, status=200, **more):
    answer = server.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 150} | more)
    if answer.status != status:
        raise AssertionError(answer)
    return answer.json()


def prompt(server, messages=QUESTION, **more):
    answer = server.post("/apply-template", {"messages": messages} | more)
    if answer.status != 200:
        raise AssertionError(answer)
    return answer.json()["prompt"]


def streamed(server, **body):
    """The message and the finish reason that the chunks of a stream make."""
    message, reason = {"content": "", "tool_calls": []}, None
    with server.stream("/v1/chat/completions", {"messages": QUESTION, "temperature": 0, "max_tokens": 150, "stream": True} | body) as stream:
        chunks = [e for e in stream if isinstance(e, dict)]
    for chunk in chunks:
        choice, = chunk["choices"]
        delta = choice["delta"]
        reason = choice["finish_reason"] or reason
        message["content"] += delta.get("content") or ""
        if "reasoning_content" in delta:
            message["reasoning_content"] = message.get("reasoning_content", "") + delta["reasoning_content"]
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(message["tool_calls"]) and call["type"] == "function" and call["id"], call
                message["tool_calls"].append({"name": call["function"]["name"], "arguments": ""})
            message["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
    return message, reason


class Templates(unittest.TestCase):
    def test_where_templates_are_found(self):
        listed = json.dumps({"chat_template": [{"name": "default", "template": "D{{ messages[0].content }}"},
                                               {"name": "tool_use", "template": "T{{ tools | map(attribute='function') | map(attribute='name') | join }}"}]})
        cases = [({"chat_template.jinja": "J{{ messages[0].content }}"}, "JWho is the king?"),
                 ({"tokenizer_config.json": json.dumps({"chat_template": "C{{ messages[0].role }}"})}, "Cuser"),
                 ({"tokenizer_config.json": listed}, "DWho is the king?"),
                 ({"chat_template.jinja": "J", "tokenizer_config.json": listed}, "J"),
                 ({"additional_chat_templates/default.jinja": "A"}, "A")]
        for files, expected in cases:
            with server_with(files) as server:
                self.assertEqual(prompt(server), expected)
                if files == {"tokenizer_config.json": listed}:
                    self.assertEqual(prompt(server, tools=[WEATHER, CLOCK]), "Tget_weatherget_time")
                self.assertEqual(server.stop(), 0)

    def test_a_template_of_a_file(self):
        """A file beside the model: its folder may be read-only, or the model a GGUF file."""
        with tempfile.TemporaryDirectory() as name:
            mine = pathlib.Path(name) / "mine.jinja"
            mine.write_text("M{{ messages[0].content }}{{ eos_token }}", encoding="utf-8")
            for files in [{}, {"chat_template.jinja": "J"}]:
                with server_with(files, "--chat-template", mine) as server:
                    self.assertEqual(prompt(server), "MWho is the king?<|endoftext|>")
                    self.assertEqual(server.stop(), 0)
            mine.write_text("a\n{% include 'x' %}", encoding="utf-8")
            with Server("--chat-template", mine, wait=False) as server:
                self.assertNotEqual(server.ended(), 0)
                self.assertRegex(server.text(), "\ntenon: mine.jinja, line 2, column [0-9]+: .*include")
            with Server("--chat-template", mine.parent / "gone.jinja", wait=False) as server:
                self.assertEqual(server.ended(), 2)
                self.assertIn("there is no file", server.text())

    def test_a_template_that_cannot_be_used(self):
        with server_with({"chat_template.jinja": "a\n{% include 'x' %}"}) as server:
            answer = server.post("/v1/chat/completions", {"messages": QUESTION})
            self.assertEqual(answer.status, 400, answer)
            self.assertRegex(answer.json()["error"]["message"], "chat_template.jinja.*line 2, column [0-9]+: .*include")
            self.assertEqual(answer.json()["error"]["param"], "messages")
            self.assertEqual(server.post("/v1/completions", {"prompt": "The king", "max_tokens": 2}).status, 200)
            self.assertEqual(server.stop(), 0)
            self.assertRegex(server.text(), "warning: chat requests are refused: .*line 2")
        raises = "{% if messages | length > 1 %}\n  {{ raise_exception('One only!') }}\n{% endif %}{{ messages[0].content }}"
        with server_with({"chat_template.jinja": raises}) as server:
            error = chat(server, QUESTION * 2, status=400)["error"]
            self.assertRegex(error["message"], "line 2, column [0-9]+: .*One only!")
            self.assertEqual(chat(server, max_tokens=2)["usage"]["completion_tokens"], 2)
            self.assertEqual(server.stop(), 0)

    def test_variables_of_templates(self):
        jinja = ("{% for m in messages %}{{ m.role + '=' + m.content + ';' }}{% endfor %}{{ mood | default('calm') }}"
                 "{% if documents %}{{ documents | map(attribute='title') | join }}{% endif %}{{ add_generation_prompt }}")
        with server_with({"chat_template.jinja": jinja}) as server:
            self.assertEqual(prompt(server), "user=Who is the king?;calmTrue")
            self.assertEqual(prompt(server, chat_template_kwargs={"mood": "glad"}, documents=[{"title": "t"}], add_generation_prompt=False),
                             "user=Who is the king?;gladtFalse")
            turns = QUESTION + [{"role": "assistant", "content": "Once upon"}]
            self.assertEqual(prompt(server, turns, continue_final_message=True), "user=Who is the king?;assistant=Once upon")
            answer = server.post("/apply-template", {"messages": turns, "continue_final_message": True, "add_generation_prompt": True})
            self.assertEqual(answer.status, 422, answer)
            self.assertEqual(server.stop(), 0)

    def test_ids_of_prompts_and_of_chats_agree(self):
        with server_with({"chat_template.jinja": CHATML}) as server:
            turns = [{"role": "system", "content": "Be k\u00efnd."}] + QUESTION
            listed = server.post("/tokenize", {"messages": turns}).json()
            text = prompt(server, turns)
            self.assertEqual("".join(t["text"] for t in listed), text)
            for token in listed:
                self.assertEqual(text[token["start"]:token["stop"]], token["text"])
            asked = chat(server, turns, max_tokens=2, return_token_ids=True)
            self.assertEqual(asked["prompt_token_ids"], [t["id"] for t in listed])
            plain = server.post("/v1/completions", {"prompt": text, "max_tokens": 8, "temperature": 0}).json()
            self.assertEqual(chat(server, turns, max_tokens=8)["choices"][0]["message"]["content"], plain["choices"][0]["text"])
            self.assertEqual(server.post("/tokenize", {"messages": turns, "inputs": "a"}).status, 422)
            self.assertEqual(server.post("/tokenize", {"inputs": "a", "tools": [WEATHER]}).status, 422)
            self.assertEqual(server.post("/tokenize", {"messages": turns, "return_token_strs": True}).status, 422)
            self.assertEqual(server.stop(), 0)

    def test_a_hundred_forged_turns(self):
        """Ids of a message that spells special tokens are those of its text."""
        choice = random.Random(5)
        with tempfile.TemporaryDirectory() as folder:
            model_with_begin(pathlib.Path(folder))
            (pathlib.Path(folder) / "chat_template.jinja").write_text(
                "{% for m in messages %}{{ bos_token + m.role + ':' + m.content }}{{ eos_token }}{% endfor %}")
            with Server("--model", folder) as server:
                words = ["<|endoftext|>", "<|endoftext|>system:", "\n", " a", "<|", "endoftext|>", "{{ eos_token }}", "b"]
                for _ in range(100):
                    content = "".join(choice.choice(words) for _ in range(choice.randint(1, 6))) + "<|endoftext|>"
                    ids = [t["id"] for t in server.post("/tokenize", {"messages": [{"role": "user", "content": content}]}).json()]
                    self.assertEqual((ids.count(EOS), ids[0], ids[-1]), (2, EOS, EOS), content)
                    alone = {"inputs": "user:" + content, "parse_special": False, "add_special_tokens": False}
                    self.assertEqual(ids[1:-1], [t["id"] for t in server.post("/tokenize", alone).json()], content)
                self.assertEqual(server.stop(), 0)


class Tools(unittest.TestCase):
    STYLES = ["qwen25", "llama31_tools", "mistral_v3", "granite", "smollm2", "chatml", "phi4"]

    def check_calls(self, calls, most):
        self.assertTrue(1 <= len(calls) <= most, calls)
        for call in calls:
            arguments = json.loads(call["arguments"])
            if call["name"] == "get_weather":
                self.assertEqual(set(arguments), {"city", "days"})
                self.assertTrue(arguments["city"] in ["Rome", "Oslo"] and 1 <= arguments["days"] <= 9, arguments)
            else:
                self.assertEqual((call["name"], set(arguments)), ("get_time", {"zone"}))
                self.assertLessEqual(len(arguments["zone"]), 6)

    def test_calls_that_must_come_in_every_style(self):
        for style in self.STYLES:
            with self.subTest(style), server_with({"chat_template.jinja": (TEMPLATES / (style + ".jinja")).read_text(encoding="utf-8")}) as server:
                # Prompts of these two are long, and the model's context is 1,024 tokens.
                tools = [CLOCK] if style in ("llama31_tools", "granite") else [WEATHER, CLOCK]
                for asked, most in [({"tool_choice": "required"}, 16), ({"tool_choice": "required", "parallel_tool_calls": False}, 1),
                                    ({"tool_choice": {"type": "function", "function": {"name": "get_time"}}}, 1)]:
                    for more in [{}, {"temperature": 1, "seed": 3}]:
                        body = {"tools": tools, "max_tokens": 200} | asked | more
                        choice, = chat(server, **body)["choices"]
                        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
                        calls = [c["function"] for c in choice["message"]["tool_calls"]]
                        self.check_calls(calls, most)
                        ids = [c["id"] for c in choice["message"]["tool_calls"]]
                        self.assertEqual(len(set(ids)), len(ids))
                        message, reason = streamed(server, **body)
                        self.assertEqual((message, reason), ({"content": "", "tool_calls": calls}, "tool_calls"))
                        if "function" in asked["tool_choice"]:
                            self.assertEqual(calls[0]["name"], "get_time")
                    # The calls go back into the conversation with their results.
                    turns = QUESTION + [choice["message"]] + [{"role": "tool", "tool_call_id": i, "content": "sunny"} for i in ids]
                    self.assertIn("sunny", prompt(server, turns, tools=tools))
                self.assertEqual(server.stop(), 0)

    def test_calls_that_may_come(self):
        with server_with({"chat_template.jinja": CHATML}) as server:
            choice = chat(server, tools=[WEATHER], max_tokens=20)["choices"][0]
            self.assertEqual(set(choice["message"]), {"role", "content", "refusal"})
            self.assertEqual(streamed(server, tools=[WEATHER], max_tokens=20)[0]["content"], choice["message"]["content"])
            none = chat(server, tools=[WEATHER], tool_choice="none", max_tokens=20)
            self.assertEqual(none["choices"], chat(server, max_tokens=20)["choices"])
            self.assertEqual(server.stop(), 0)

    def test_calls_or_a_format(self):
        """Answers are calls, or else a text of the format: never another text."""
        shape = {"type": "object", "properties": {"mood": {"enum": ["glad", "sad"]}, "king": {"type": "boolean"}}, "required": ["mood", "king"],
                 "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": shape}}
        for style in self.STYLES:
            with self.subTest(style), server_with({"chat_template.jinja": (TEMPLATES / (style + ".jinja")).read_text(encoding="utf-8")}) as server:
                tools, kinds = [CLOCK], set()
                for seed, mark in enumerate(["<", "[", "{", "", "", ""]):  # with which the answer has to begin, if it may
                    bias = {str(i): 100 for i in server.post("/tokenize", {"content": mark}).json()["tokens"]}
                    body = {"tools": tools, "response_format": form, "temperature": 1, "seed": seed, "max_tokens": 200, "logit_bias": bias, "parallel_tool_calls": not mark}
                    choice, = chat(server, **body)["choices"]
                    message, reason = streamed(server, **body)
                    self.assertEqual(reason, choice["finish_reason"])
                    kinds.add(reason)
                    if reason == "tool_calls":
                        calls = [c["function"] for c in choice["message"]["tool_calls"]]
                        self.check_calls(calls, 16)
                        self.assertEqual((choice["message"]["content"], message["tool_calls"]), (None, calls))
                    else:
                        answer = json.loads(choice["message"]["content"])
                        self.assertEqual((set(answer), reason, message["content"]), ({"mood", "king"}, "stop", choice["message"]["content"]))
                        self.assertNotIn("tool_calls", choice["message"])
                if style != "llama31_tools":  # whose calls begin with {, as the answers do
                    self.assertEqual(kinds, {"tool_calls", "stop"})
                alone = chat(server, tools=tools, tool_choice="none", response_format=form)["choices"][0]["message"]
                self.assertEqual(set(json.loads(alone["content"])), {"mood", "king"})
                named = {"type": "function", "function": {"name": "get_time"}}
                for choice in ["required", named]:
                    body = {"tools": tools, "tool_choice": choice, "max_tokens": 200}
                    got, = chat(server, response_format=form, **body)["choices"]
                    self.assertEqual((got["finish_reason"], got["message"]["content"]), ("tool_calls", None))
                    self.assertEqual([c["function"] for c in got["message"]["tool_calls"]],
                                     [c["function"] for c in chat(server, **body)["choices"][0]["message"]["tool_calls"]])
                flat = CLOCK["function"] | {"type": "function"}
                for choice in ["auto", {"type": "function", "name": "get_time"}]:
                    text = {"format": {"type": "json_schema", "name": "answer", "schema": shape, "strict": True}}
                    got = server.post("/v1/responses", {"input": "Who is the king?", "tools": [flat], "tool_choice": choice, "text": text,
                                                        "temperature": 0, "max_output_tokens": 200}).json()
                    for item in got["output"]:
                        if item["type"] == "function_call":
                            self.check_calls([item], 16)
                        else:
                            self.assertEqual(set(json.loads(item["content"][0]["text"])), {"mood", "king"})
                    self.assertTrue(choice == "auto" or got["output"][0]["type"] == "function_call", got)
                self.assertEqual(server.stop(), 0)

    def test_formats_beside_tools_that_are_refused(self):
        wrong = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "strange"}}}
        with server_with({"chat_template.jinja": (TEMPLATES / "llama31_tools.jinja").read_text(encoding="utf-8")}) as server:
            error = chat(server, tools=[CLOCK], response_format=wrong, status=400)["error"]
            self.assertEqual(error["param"], "response_format")
            # Llama's calls are JSON objects that a text of any JSON object may equal.
            error = chat(server, tools=[CLOCK], response_format={"type": "json_object"}, status=400)["error"]
            self.assertIn("may begin as a call of `get_time` does", error["message"])
            self.assertEqual(error["param"], "response_format")
            self.assertIn("set `tool_choice` to", error["message"])
            error = chat(server, tools=[CLOCK], guided_regex=".*", status=400)["error"]
            self.assertEqual(error["param"], "guided_regex")
            flat = CLOCK["function"] | {"type": "function"}
            error = server.post("/v1/responses", {"input": "a", "tools": [flat], "text": {"format": {"type": "json_object"}}}).json()["error"]
            self.assertEqual(error["param"], "text.format")
            self.assertEqual(server.stop(), 0)

    def test_schemas_that_cannot_be_enforced(self):
        loose = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}}}
        strict = {"type": "function", "function": loose["function"] | {"strict": True}}
        with server_with({"chat_template.jinja": CHATML}) as server:
            chat(server, tools=[loose], max_tokens=4)
            for body in [{"tools": [strict]}, {"tools": [loose], "tool_choice": "required"}]:
                error = chat(server, status=400, **body)["error"]
                self.assertEqual(error["param"], "tools")
                self.assertIn("f: #/properties/a/$dynamicRef", error["message"])
            self.assertEqual(server.stop(), 0)

    def test_an_answer_that_is_cut(self):
        with server_with({"chat_template.jinja": CHATML}) as server:
            for more, reason in [({"max_tokens": 3}, "length"), ({"max_tokens": 12}, "length"), ({"stop": '"days"'}, "stop"),
                                 ({"stop": "</tool_call>"}, "tool_calls")]:
                body = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False} | more
                self.assertEqual(chat(server, **body)["choices"][0]["finish_reason"], reason, more)
                self.assertEqual(streamed(server, **body)[1], reason, more)
            self.assertEqual(server.stop(), 0)


class Reasoning(unittest.TestCase):
    def test_reasoning_is_told_apart(self):
        with server_with({"chat_template.jinja": THINKS}) as server:
            whole = chat(server, max_tokens=12)["choices"][0]["message"]
            self.assertEqual(whole["content"], "")
            self.assertTrue(whole["reasoning_content"])
            message, _ = streamed(server, max_tokens=12)
            self.assertEqual((message["content"], message["reasoning_content"]), ("", whole["reasoning_content"]))
            for more in [{"separate_reasoning": False}, {"reasoning_format": "none"}]:
                message = chat(server, max_tokens=12, **more)["choices"][0]["message"]
                self.assertEqual((message["content"], message.get("reasoning_content")), (whole["reasoning_content"], None))
            message = chat(server, max_tokens=12, include_reasoning=False)["choices"][0]["message"]
            self.assertEqual((message["content"], "reasoning_content" in message), ("", False))
            # A form begins with the first token.
            message = chat(server, response_format={"type": "json_object", "schema": {"const": 5}})["choices"][0]["message"]
            self.assertEqual(message["content"], "5")
            choice = chat(server, tools=[WEATHER], tool_choice="required")["choices"][0]
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertEqual(server.stop(), 0)


    def test_requests_turn_it_on_and_off(self):
        jinja = ("{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{% endfor %}{% if enable_thinking is not defined or enable_thinking %}"
                 "<think>{% endif %}{{ reasoning_effort }}")
        with server_with({"chat_template.jinja": jinja}) as server:
            for off in [{"enable_thinking": False}, {"think": False}, {"thinking": False}, {"reasoning": False}, {"thinking": {"type": "disabled"}}]:
                self.assertEqual(prompt(server, **off), "Who is the king?", off)
            for effort in [{"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}]:
                self.assertEqual(prompt(server, **effort), "Who is the king?none", effort)
            self.assertEqual(prompt(server, reasoning_effort="high"), "Who is the king?<think>high")
            self.assertEqual(prompt(server, QUESTION + [{"role": "assistant", "content": "a", "reasoning": "b"}]), "Who is the king?ab<think>")
            self.assertIn("reasoning_content", chat(server, max_tokens=8)["choices"][0]["message"])
            self.assertNotIn("reasoning_content", chat(server, max_tokens=8, enable_thinking=False)["choices"][0]["message"])
            body = {"max_tokens": 8, "temperature": 0}
            message = server.post("/v1/messages", body | {"messages": QUESTION, "thinking": {"type": "disabled"}})
            self.assertEqual([block["type"] for block in message.json()["content"]], ["text"])
            asked = {"input": "Who is the king?", "max_output_tokens": 8, "temperature": 0, "reasoning": {"effort": "none", "summary": None},
                     "include": ["reasoning.encrypted_content"]}
            answer = server.post("/v1/responses", asked)
            self.assertEqual([item["type"] for item in answer.json()["output"]], ["message"], answer)
            self.assertEqual(answer.json()["reasoning"], asked["reasoning"])
            self.assertNotIn("x-ignored-fields", answer.headers)
            self.assertEqual(server.stop(), 0)

    def test_a_template_without_the_variables(self):
        for jinja, off in [("{{ messages[0].content }}{{ messages[0].thinking }}", None), (THINKS, "enable_thinking")]:
            with server_with({"chat_template.jinja": jinja}) as server:
                body = {"messages": QUESTION, "max_tokens": 4}
                for more, ignored in [({"enable_thinking": False}, off), ({"reasoning_effort": "high"}, "reasoning_effort"), ({}, None)]:
                    answer = server.post("/v1/chat/completions", body | more)
                    self.assertEqual((answer.status, answer.headers.get("x-ignored-fields")), (200, ignored), more)
                self.assertEqual(server.stop(), 0)

    def test_fields_that_a_template_heeds_in_part(self):
        """Each field that asks for a variable which the template does not read is told, on every route of conversations."""
        jinja = "{# reasoning_effort #}{{ messages[0].content }}{% if enable_thinking %}<think>{% endif %}"
        cases = [({"reasoning_effort": "high"}, "reasoning_effort"), ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
                 ({"thinking": {"type": "enabled", "budget_tokens": 50}}, "thinking.budget_tokens"), ({"reasoning_effort": "none"}, None),
                 ({"enable_thinking": True}, None), ({"thinking": {"type": "disabled"}}, None)]
        with server_with({"chat_template.jinja": jinja}) as server:
            for more, ignored in cases:
                for path, body in [("/v1/chat/completions", {"max_tokens": 2}), ("/tokenize", {}), ("/apply-template", {}),
                                   ("/v1/messages", {"max_tokens": 2}), ("/v1/messages/count_tokens", {})]:
                    answer = server.post(path, {"messages": QUESTION} | body | more)
                    self.assertEqual((answer.status, answer.headers.get("x-ignored-fields")), (200, ignored), (path, more))
            both = {"thinking": {"type": "enabled", "budget_tokens": 50}, "reasoning": {"max_tokens": 60}}
            self.assertIn("`thinking`", chat(server, status=400, **both)["error"]["message"])
            both["reasoning"]["max_tokens"] = 50
            chat(server, max_tokens=2, **both)
            self.assertEqual(server.stop(), 0)

    def test_reasoning_that_is_omitted(self):
        with server_with({"chat_template.jinja": THINKS}) as server:
            for display, kinds in [("summarized", ["thinking"]), ("omitted", [])]:
                answer = server.post("/v1/messages", {"messages": QUESTION, "max_tokens": 8, "temperature": 0,
                                                      "thinking": {"type": "enabled", "budget_tokens": 1024, "display": display}}).json()
                self.assertEqual([block["type"] for block in answer["content"]], kinds, answer)
            self.assertEqual(server.stop(), 0)

    def test_an_end_that_is_a_special_token(self):
        with server_with({"chat_template.jinja": THINKS}) as server:
            asked = chat(server, max_tokens=12, return_token_ids=True)
            ids, before = asked["choices"][0]["token_ids"], asked["prompt_token_ids"]
            at = next(i for i in range(2, 10) if ids[i] not in before and ids.count(ids[i]) == 1)
            parts = [chat(server, max_tokens=n)["choices"][0]["message"]["reasoning_content"] for n in (at, at + 1, 12)]
            self.assertEqual(server.stop(), 0)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model_with_begin(folder)
            tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            model, end = tokenizer["model"], "</think>"
            word = next(text for text, number in model["vocab"].items() if number == ids[at])
            del model["vocab"][word]
            model["vocab"][end] = ids[at]
            model["merges"] = [line for line in model["merges"] if word not in line.split(" ") and line.replace(" ", "") != word]
            tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": ids[at], "content": end})
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
            (folder / "chat_template.jinja").write_text(THINKS, encoding="utf-8")
            with Server("--model", folder) as server:
                asked = chat(server, max_tokens=12, return_token_ids=True, logprobs=True)
                self.assertEqual(asked["prompt_token_ids"], before)
                message = asked["choices"][0]["message"]
                expected = parts[0], parts[2][len(parts[1]):].lstrip()
                self.assertEqual((message["reasoning_content"], message["content"]), expected)
                self.assertEqual(len(asked["choices"][0]["logprobs"]["content"]), 12)
                message, _ = streamed(server, max_tokens=12)
                self.assertEqual((message["reasoning_content"], message["content"]), expected)
                self.assertEqual(server.stop(), 0)


class Anthropic(unittest.TestCase):
    """Anthropic's Messages API, by its documentation."""
    TOOL = {"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}

    def ask(self, server, status=200, **more):
        answer = server.post("/v1/messages", {"model": "", "messages": QUESTION, "max_tokens": 12, "temperature": 0} | more)
        self.assertEqual(answer.status, status, answer)
        return answer.json()

    def events(self, server, **more):
        body = {"messages": QUESTION, "max_tokens": 12, "temperature": 0, "stream": True} | more
        text = server.post("/v1/messages", body).text()
        events = []
        for event in text.split("\n\n")[:-1]:
            name, data = event.split("\n")
            data = json.loads(data[len("data: "):])
            self.assertEqual(name, "event: " + data["type"])
            events.append(data)
        return events

    def test_texts(self):
        with Server("--chat-template", "plain") as server:
            whole = self.ask(server)
            self.assertEqual((whole["type"], whole["role"], whole["stop_reason"]), ("message", "assistant", "max_tokens"))
            text, = whole["content"]
            self.assertEqual(text, {"type": "text", "text": chat(server, max_tokens=12)["choices"][0]["message"]["content"]})
            self.assertEqual(whole["usage"]["output_tokens"], 12)
            system = [{"role": "system", "content": "Be kind."}] + QUESTION
            self.assertEqual(self.ask(server, system=[{"type": "text", "text": "Be kind."}])["content"][0]["text"],
                             chat(server, system, max_tokens=12)["choices"][0]["message"]["content"])
            events = self.events(server)
            self.assertEqual([e["type"] for e in events if e["type"] != "content_block_delta"],
                             ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
            self.assertEqual("".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta"), text["text"])
            self.assertEqual(events[-2]["delta"]["stop_reason"], "max_tokens")
            for body, name in [({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"), ({"thinking": {"type": "x"}}, "thinking.type"),
                               ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type")]:
                refused = self.ask(server, 400, **body)
                self.assertEqual((set(refused), refused["type"], set(refused["error"])), ({"type", "error"}, "error", {"type", "message"}))
                self.assertEqual(refused["error"]["type"], "invalid_request_error")
                self.assertIn(name, refused["error"]["message"])
            self.assertEqual(self.ask(server, 404, model="nobody")["error"]["type"], "not_found_error")
            answer = server.post("/v1/messages", "{")
            self.assertEqual((answer.status, answer.json()["error"]["type"]), (400, "invalid_request_error"))
            answer = server.get("/v1/messages")
            self.assertEqual((answer.status, answer.json()["type"], answer.json()["error"]["type"]), (405, "error", "invalid_request_error"))
            self.assertEqual(server.stop(), 0)

    def test_tokens_are_counted_as_in_the_answer(self):
        with Server("--chat-template", "chatml") as server:
            def counted(status=200, **body):
                answer = server.post("/v1/messages/count_tokens", {"model": "", "messages": QUESTION} | body)
                self.assertEqual(answer.status, status, answer)
                return answer.json()

            said = [*QUESTION, {"role": "assistant", "content": "The king is"}]
            for body in [{}, {"system": "Be kind."}, {"tools": [self.TOOL]}, {"messages": said}, {"model": "shakespeare"}, {"truncate_prompt_tokens": 5}]:
                self.assertEqual(counted(**body), {"input_tokens": self.ask(server, **body)["usage"]["input_tokens"]}, body)
            self.assertEqual(counted(404, model="nobody")["error"]["type"], "not_found_error")
            self.assertIn("`messages`", counted(400, messages=[])["error"]["message"])
            self.assertEqual(server.stop(), 0)

    def test_the_last_message_of_the_assistant_goes_on(self):
        with Server("--chat-template", "plain") as server:
            said = [*QUESTION, {"role": "assistant", "content": "The king is"}]
            answer = self.ask(server, messages=said)["content"][0]["text"]
            chat = server.post("/v1/chat/completions", {"messages": said, "max_tokens": 12, "temperature": 0, "continue_final_message": True,
                                                        "add_generation_prompt": False}).json()
            self.assertEqual(answer, chat["choices"][0]["message"]["content"])
            turn = self.ask(server, messages=said, continue_final_message=False, add_generation_prompt=True)["content"][0]["text"]
            self.assertNotEqual(answer, turn)
            blocks = [*QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "The king is"}]}]
            self.assertEqual(self.ask(server, messages=blocks)["content"][0]["text"], answer)
            self.assertEqual(server.stop(), 0)

    def test_stop_sequences(self):
        with Server("--chat-template", "plain") as server:
            text = self.ask(server)["content"][0]["text"]
            word = text.split()[2]
            whole = self.ask(server, stop_sequences=["never", word])
            self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("stop_sequence", word))
            self.assertEqual(whole["content"][0]["text"], text[:text.index(word)])
            delta, = [e["delta"] for e in self.events(server, stop_sequences=["never", word]) if e["type"] == "message_delta"]
            self.assertEqual(delta, {"stop_reason": "stop_sequence", "stop_sequence": word})
            whole = self.ask(server, stop_sequences=["never"])
            self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("max_tokens", None))
            more = {"tools": [self.TOOL], "tool_choice": {"type": "any"}, "max_tokens": 150}
            cut = self.ask(server, stop_sequences=['"days"'], **more)
            self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", '"days"'))
            self.assertEqual(server.stop(), 0)

    def test_tools(self):
        with Server("--chat-template", "plain") as server:
            more = {"tools": [self.TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 150}
            whole = self.ask(server, **more)
            call, = whole["content"]
            self.assertEqual((whole["stop_reason"], call["type"], call["name"]), ("tool_use", "tool_use", "get_weather"))
            self.assertEqual(set(call["input"]), {"city", "days"})
            events = self.events(server, **more)
            self.assertEqual(json.loads("".join(e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta")), call["input"])
            turns = QUESTION + [{"role": "assistant", "content": whole["content"]},
                                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"}]}]
            self.assertGreater(self.ask(server, messages=turns)["usage"]["input_tokens"], self.ask(server)["usage"]["input_tokens"] + 20)
            self.assertEqual(server.stop(), 0)


class Failures(unittest.TestCase):
    """Streams whose time is over after they have begun."""
    LONG = {"temperature": 0, "ignore_eos": True, "stream": True}

    def events(self, server, path, **body):
        for _ in range(20):  # on a slow machine the time may be over before anything is sent
            answer = server.post(path, self.LONG | body)
            if answer.status == 200:
                break
        self.assertEqual(answer.status, 200, answer)
        events = []
        for event in answer.text().split("\n\n")[:-1]:
            name, data = event.split("\n")
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        return events

    def test_the_last_event_says_so(self):
        with Server("--chat-template", "plain", "--draft", "none", "--request-timeout", 5 if serving.is_sanitized() else 0.3) as server:
            events = self.events(server, "/v1/messages", messages=QUESTION, max_tokens=900)
            self.assertIn("content_block_delta", [name for name, _ in events])
            name, data = events[-1]
            self.assertEqual((name, data["type"], set(data["error"])), ("error", "error", {"type", "message"}))
            events = self.events(server, "/v1/responses", input="Who is the king?", max_output_tokens=900)
            text = "".join(data["delta"] for name, data in events if name == "response.output_text.delta")
            name, data = events[-1]
            self.assertEqual((name, data["type"], data["response"]["status"]), ("response.failed", "response.failed", "failed"))
            self.assertEqual(data["response"]["error"]["code"], "server_error")
            self.assertTrue(text)
            self.assertEqual(data["response"]["output"][0]["content"][0]["text"], text)
            self.assertEqual([data["sequence_number"] for _, data in events], list(range(len(events))))
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    serving.main()
