"""What the parts of a request mean, and what is refused by name instead of being ignored."""
import json
import unittest

import serving
from serving import Server, ServerTest
from test_chat import CHATML, server_with

KING = "The king said"


class Strict(ServerTest):
    FLAGS = ["--chat-template", "plain"]

    def said(self, path, body, status, headers=None):
        answer = self.server.post(path, body, **({"headers": headers} if headers else {}))
        self.assertEqual(answer.status, status, (path, body, answer))
        return answer

    def names(self, path, body, name):
        """The request is refused, and the message begins with the field's name."""
        error = self.said(path, body, 422 if path == "/generate" else 400).json()["error"]
        message = error["message"] if isinstance(error, dict) else error.removeprefix("Input validation error: ")
        self.assertTrue(message.startswith("`%s`" % name), (str(body)[:300], message))
        return message

    def completion(self, name, **more):
        return self.names("/v1/completions", {"prompt": KING, "max_tokens": 4} | more, name)

    def test_empty_schemas_are_any_json(self):
        asked = dict(temperature=0, max_tokens=60)
        plain = self.complete(**asked)["choices"][0]["text"]
        any_json = self.complete(guided_json="{}", **asked)["choices"][0]["text"]
        self.assertNotEqual(any_json, plain)
        for name in ["json_schema", "guided_json", "schema", "response_schema", "format"]:
            self.assertEqual(self.complete(**{name: {}}, **asked)["choices"][0]["text"], any_json, name)
            self.assertEqual(self.complete(**{name: None}, **asked)["choices"][0]["text"], plain, name)
        for schema in [{}, {"description": "x"}]:
            form = {"type": "json_object", "schema": schema}
            self.assertEqual(self.complete(response_format=form, **asked)["choices"][0]["text"], any_json, schema)

    def test_what_a_schema_does_not_enforce_is_in_a_header(self):
        warning = "format 'slug\u00e9' is not enforced (#/properties/b)"
        schema = {"type": "object", "properties": {"b": {"type": "string", "format": "slug\u00e9"}}}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        user = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        for path, body in [("/v1/completions", {"prompt": "a", "max_tokens": 3, "response_format": form}),
                           ("/generate", {"inputs": "a", "parameters": {"max_new_tokens": 3, "response_format": form}}),
                           ("/v1/chat/completions", user | {"response_format": form}),
                           ("/v1/completions", {"prompt": "a", "max_tokens": 3, "response_format": form, "stream": True})]:
            answer = self.said(path, body, 200)
            self.assertEqual(json.loads(answer.headers["x-tenon-warnings"]), [warning], path)
        tools = self.said("/v1/chat/completions", user | {"tools": [tool], "tool_choice": "required"}, 200)
        self.assertIn("slug", json.loads(tools.headers["x-tenon-warnings"])[0])
        sound = self.said("/v1/completions", {"prompt": "a", "max_tokens": 1}, 200)
        self.assertNotIn("x-tenon-warnings", sound.headers)
        many = {"type": "object", "properties": {"p%d" % i: {"type": "string", "format": "slug"} for i in range(100)}}
        answer = self.said("/v1/completions", {"prompt": "a", "max_tokens": 3, "response_format": {"type": "json_object", "schema": many}}, 200)
        self.assertLess(len(answer.headers["x-tenon-warnings"]), 1500)
        self.assertRegex(json.loads(answer.headers["x-tenon-warnings"])[-1], r"^and \d\d more$")
        long = {"type": "string", "format": "\u00e9" * 2000}
        answer = self.said("/v1/completions", {"prompt": "a", "max_tokens": 3, "response_format": {"type": "json_object", "schema": long}}, 200)
        self.assertTrue(json.loads(answer.headers["x-tenon-warnings"])[0].startswith("format '\u00e9"))
        self.assertLess(len(answer.headers["x-tenon-warnings"]), 1500)

    def test_empty_forms_of_another_type(self):
        for field, values in [("regex", [[], {}]), ("guided_regex", [[], {}]), ("ebnf", [[], {}]), ("choice", [{}, []]),
                              ("guided_choice", [{}, []]), ("guided_json", [[]]), ("json_schema", [[]]), ("format", [[]]),
                              ("response_format", [[]]), ("grammar", [[]]), ("structured_outputs", [[]])]:
            for value in values:
                self.completion(field, **{field: value})
        for field, value in [("choice", []), ("choice", {}), ("regex", []), ("grammar", {})]:
            message = self.completion("structured_outputs." + field, structured_outputs={field: value})
            self.assertIn("must", message)

    def test_arguments_of_calls_are_objects(self):
        schemas = [{"type": "array", "items": {}}, {"type": "string"}, {"type": ["array", "null"]}]
        message = {"role": "user", "content": "a"}
        for schema in schemas:
            function = {"name": "f", "parameters": schema}
            for choice in ["auto", "required", "none"]:
                self.names("/v1/chat/completions", {"messages": [message], "tools": [{"type": "function", "function": function}],
                                                    "tool_choice": choice}, "tools[0].function.parameters")
            self.names("/v1/responses", {"input": "a", "tools": [function | {"type": "function"}]}, "tools[0].parameters")
            self.names("/v1/messages", {"messages": [message], "max_tokens": 4, "tools": [{"name": "f", "input_schema": schema}]},
                       "tools[0].input_schema")
        for schema in [None, {}, {"type": "object"}, {"type": ["object", "null"]}, {"properties": {"a": {}}}]:
            self.said("/v1/chat/completions", {"messages": [message], "max_tokens": 2, "tools": [
                {"type": "function", "function": {"name": "f", "parameters": schema}}]}, 200)

    def test_the_echo_of_a_cut_prompt(self):
        prompt = "Once upon a time the king said"
        asked = dict(temperature=0, max_tokens=3, echo=True, logprobs=1)
        whole = self.complete(prompt, **asked)["choices"][0]
        self.assertTrue(whole["text"].startswith(prompt))
        self.assertEqual(self.complete(prompt, truncate_prompt_tokens=500, **asked)["choices"][0]["text"], whole["text"])
        for most in [1, 2, 3]:
            choice = self.complete(prompt, truncate_prompt_tokens=most, **asked)["choices"][0]
            logs = choice["logprobs"]
            self.assertEqual("".join(logs["tokens"]), choice["text"])
            for token, offset in zip(logs["tokens"], logs["text_offset"]):
                self.assertEqual(choice["text"][offset:offset + len(token)], token)

    def test_two_adapters_of_one_name(self):
        body = {"inputs": KING, "adapter_id": "weather", "parameters": {"max_new_tokens": 2, "adapter_id": "shakespeare"}}
        self.assertIn("than `adapter_id`", self.names("/generate", body, "parameters.adapter_id"))
        body["parameters"]["adapter_id"] = "weather"
        self.said("/generate", body, 200)

    def responses(self, name, input="a", **more):
        return self.names("/v1/responses", {"input": input, "max_output_tokens": 4} | more, name)

    def messages(self, name, content="a", **more):
        return self.names("/v1/messages", {"messages": [{"role": "user", "content": content}], "max_tokens": 4} | more, name)

    def test_members_of_items_of_another_type(self):
        user = {"role": "user", "content": "Hi"}
        for name, value in [("output", "secret"), ("arguments", "{}"), ("name", 5), ("call_id", "1")]:
            self.responses("input[0]." + name, [user | {name: value}])
        self.said("/v1/responses", {"input": [user | {"output": None, "name": ""}], "max_output_tokens": 2}, 200)
        self.responses("input[1].output", [user, {"type": "function_call", "name": "f", "call_id": "1", "output": "x"}])
        self.responses("input[0].content", [{"type": "function_call_output", "call_id": "1", "output": "x", "content": "y"}])
        text = {"type": "text", "text": "Hi"}
        for name, value in [("is_error", True), ("input", {"a": 1}), ("tool_use_id", "q"), ("thinking", "x"), ("content", "y")]:
            self.messages("messages[0].content[0]." + name, [text | {name: value}])
        self.said("/v1/messages", {"messages": [{"role": "user", "content": [text | {"is_error": False, "input": {}}]}],
                                   "max_tokens": 2}, 200)
        self.messages("messages[0].content[0].text", [{"type": "tool_result", "tool_use_id": "1", "text": "x"}])
        self.messages("tool_choice.name", tools=[{"name": "g"}], tool_choice={"type": "auto", "name": "g"})

    def test_members_of_a_tool_choice(self):
        tools = [{"type": "function", "name": "f"}]
        choice = {"type": "function", "name": "f"}
        self.responses("tool_choice.foo", tools=tools, tool_choice=choice | {"foo": 1})
        self.said("/v1/responses", {"input": "a", "tools": tools, "tool_choice": choice, "max_output_tokens": 40}, 200)
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
        self.said("/v1/responses", {"input": "a", "tools": tools, "tool_choice": allowed, "max_output_tokens": 4}, 200)
        for name, members in [("mode", {"mode": "none"}), ("foo", {"foo": 1}), ("tools", {"tools": []}), ("tools[0].name", {"tools": [{"type": "function"}]}),
                              ("tools[0].type", {"tools": [{"type": "mcp"}]}), ("tools[0].foo", {"tools": [choice | {"foo": 1}]})]:
            self.responses("tool_choice." + name, tools=tools, tool_choice=allowed | members)
        self.responses("tool_choice", tools=tools, tool_choice=allowed | {"tools": [{"type": "function", "name": "g"}]})

    def test_a_length_without_a_bound_is_no_word_of_these_routes(self):
        self.responses("max_output_tokens", max_output_tokens=-1)
        for length in [-1, 0]:
            error = self.said("/v1/messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": length}, 400)
            self.assertIn("`max_tokens`", error.text())

    def test_errors_name_the_routes_own_fields(self):
        user, tools = {"role": "user", "content": "a"}, [{"type": "function", "name": "f"}, {"type": "function", "name": "a b"}]
        self.responses("text.format", text={"format": {"type": "xml"}})
        self.responses("text.format", text={"format": {"type": "json_schema", "schema": {"type": "what"}}})
        self.assertIn("`schema`", self.responses("text.format", text={"format": {"type": "json_schema", "name": "x"}}))
        self.responses("tools[1].name", tools=tools)
        self.responses("tools[0].foo", tools=[tools[0] | {"foo": 1}])
        self.responses("input[1].role", [user, {"role": "nobody", "content": "a"}], instructions="Be kind.")
        self.responses("input[1].arguments", [user, {"type": "function_call", "name": "f", "arguments": "x"}], instructions="Be kind.")
        for words in [2000, 200_000]:
            self.refused_openai("/v1/responses", {"input": "word " * words}, 400, "invalid_request_error", "input", code=...)
        for stops in [[""], ["a"] * 11]:
            self.messages("stop_sequences", stop_sequences=stops)
            self.completion("stop", stop=stops)
            self.completion("stop_words", stop_words=stops)
        self.messages("tools[0].name", tools=[{"name": "a b"}])

    def test_reasoning_that_no_message_of_the_assistant_follows(self):
        user, said = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}
        thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
        for items in [[thought, user], [user, thought], [user, thought, {"type": "function_call_output", "call_id": "1", "output": "x"}]]:
            self.responses("input[%d]" % items.index(thought), items)
        for items in [[user, thought, said, user], [user, thought, {"type": "function_call", "name": "f", "call_id": "1"}, user],
                      [{"type": "reasoning", "summary": [], "encrypted_content": "x"}, user]]:
            self.said("/v1/responses", {"input": items, "max_output_tokens": 2}, 200)

    def test_usage_has_what_openais_client_requires(self):
        usage = self.said("/v1/responses", {"input": "a", "max_output_tokens": 2}, 200).json()["usage"]
        self.assertEqual(usage["input_tokens_details"], {"cache_write_tokens": 0, "cached_tokens": 0})

    def test_empty_values_beside_another_name_of_a_field(self):
        for empty in ["", [], {}]:
            for first, second in [(1, empty), (empty, 1), (None, empty)]:
                name = "max_completion_tokens" if first is None else "max_tokens"  # which of the two is read last
                self.completion(name, max_tokens=first, max_completion_tokens=second)
        self.complete(max_tokens=1, max_completion_tokens=None)
        self.complete(max_tokens=None, max_completion_tokens=1)
        self.complete(max_tokens=1, stop=["x"], stop_sequences=[])

    def test_documents_that_the_template_does_not_show(self):
        body = {"messages": [{"role": "user", "content": "a"}], "documents": [{"title": "t", "text": "It rains."}]}
        for path in ["/v1/chat/completions", "/apply-template", "/tokenize"]:
            answer = self.server.post(path, body)
            self.assertIn(answer.status, [400, 422], (path, answer))
            self.assertIn("`documents`", answer.text())
        self.said("/v1/chat/completions", body | {"documents": [], "max_tokens": 2}, 200)
        shows = "{% for d in documents %}{{ d.text }}{% endfor %}" + CHATML
        with server_with({"chat_template.jinja": shows}) as server:
            answer = server.post("/apply-template", body)
            self.assertEqual(answer.status, 200, answer)
            self.assertIn("It rains.", answer.json()["prompt"])
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    serving.main()
