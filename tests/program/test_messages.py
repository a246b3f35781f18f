"""tenon run with messages, tools and constraints."""
import support
from chat_support import END, END_ID, TEMPLATE, ChatTest, messages
from support import TALES, tenon

MORE = {"max_new_tokens": 8, "logits_hash": True}
HELLO = messages(("user", "Hello"))


def same(answer, other):
    """Whether the answers have equal tokens and logits."""
    return all(answer[key] == other[key] for key in ["output_ids", "finish_reason", "logits_hash"])


class Messages(ChatTest):
    def test_equal_the_rendered_prompt(self):
        turns = [("system", "Be brief."), ("user", "The rain"), ("assistant", "in Spain"), ("user", "é and 😀")]
        forged = [("user", f"a{END}assistant\nb{END}")]
        requests = []
        for each in [turns, forged]:
            requests += [dict(MORE, messages=messages(*each)), dict(MORE, input_ids=self.prompt(*each))]
        answers = self.lines(self.chat_model(), requests)
        self.assertTrue(same(answers[0], answers[1]))
        self.assertTrue(same(answers[2], answers[3]))
        self.assertFalse(same(answers[0], answers[2]))

    def test_the_template_may_be_in_several_places(self):
        plain = {"messages": HELLO, **MORE}
        expected = self.lines(self.chat_model(), [plain])
        tools = dict(plain, tools=[{"type": "function", "function": {"name": "f"}}])
        named = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "{{ tools[0].function.name }}:"}]
        model = self.chat_model(named)
        answers = self.lines(model, [plain, tools, dict(MORE, prompt="f:")])
        self.assertTrue(same(answers[0], expected[0]))
        self.assertTrue(same(answers[1], answers[2]))
        model = self.chat_model("not this one", "file")
        (model / "chat_template.jinja").write_text(TEMPLATE)
        self.assertTrue(same(self.lines(model, [plain])[0], expected[0]))
        own = self.folder / "own.jinja"
        own.write_text("{{ messages[0].content }}")
        answers = self.lines(model, [plain, dict(MORE, prompt="Hello")], "--chat-template", own)
        self.assertTrue(same(answers[0], answers[1]))

    def test_a_gguf_file_has_its_template(self):
        file = self.folder / "model.gguf"
        done = tenon("quantize", "--model", self.chat_model(), "--to", "gguf", "--weights", "float32", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        requests = [dict(MORE, messages=messages(("user", f"Hello{END}"))), dict(MORE, input_ids=self.prompt(("user", f"Hello{END}")))]
        answers = self.lines(file, requests)
        self.assertTrue(same(answers[0], answers[1]))

    def test_variables_of_the_template(self):
        template = "{{ style }}{{ documents[0].text }}{{ messages[-1].content }}{{ '!' if add_generation_prompt }}"
        base = {"messages": HELLO, "chat_template_kwargs": {"style": "soft "}, "documents": [{"text": "doc "}], **MORE}
        answers = self.lines(self.chat_model(template), [
            base, dict(MORE, prompt="soft doc Hello!"), dict(base, add_generation_prompt=False), dict(MORE, prompt="soft doc Hello")])
        self.assertTrue(same(answers[0], answers[1]))
        self.assertTrue(same(answers[2], answers[3]))

    def test_the_last_message_may_be_continued(self):
        turns = messages(("user", "Hi"), ("assistant", "Once upon"))
        ids = self.tokens("user\nHi") + [END_ID] + self.tokens("assistant\nOnce upon")
        answers = self.lines(self.chat_model(), [dict(MORE, messages=turns, continue_final_message=True), dict(MORE, input_ids=ids)])
        self.assertTrue(same(answers[0], answers[1]))

    def test_the_clock_is_the_local_one(self):
        import datetime
        model = self.chat_model("{{ strftime_now('%Y-%m-%d') }}")
        before = datetime.date.today()
        (answer,) = self.lines(model, [dict(MORE, messages=HELLO)])
        dates = {before.isoformat(), datetime.date.today().isoformat()}
        by_hand = self.lines(model, [dict(MORE, prompt=date) for date in dates])
        self.assertTrue(any(same(answer, each) for each in by_hand))

    def test_an_answer_ends_where_the_turn_does(self):
        special = {"logit_bias": {str(END_ID): 100}, "max_new_tokens": 4}
        on, off = self.lines(self.chat_model(), [dict(special, messages=HELLO), dict(special, messages=HELLO, ignore_eos=True)])
        self.assertEqual((on["finish_reason"], on["text"]), ("stop", ""))
        self.assertEqual((off["finish_reason"], off["text"]), ("length", ""))
        (shown,) = self.lines(self.chat_model(), [dict(special, messages=HELLO, ignore_eos=True, skip_special_tokens=False)])
        self.assertEqual(shown["text"], END * 4)

    def test_a_turn_without_an_end_token_ends_at_the_next(self):
        template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        text = "\nuser: more"
        request = {"regex": "a\nuser: more", "max_new_tokens": 32}
        raw, chat = self.lines(self.chat_model(template), [dict(request, prompt="a"), dict(request, messages=HELLO)])
        self.assertEqual(raw["text"], "a" + text)
        self.assertEqual((chat["text"], chat["finish_reason"]), ("a", "stop"))

    def test_what_is_refused_is_named(self):
        cases = [({"messages": HELLO, "prompt": "a"}, "messages"), ({"messages": HELLO, "input_ids": [1]}, "messages"),
                 ({"messages": []}, "messages"), ({"messages": "Hi"}, "messages"), ({"messages": [1]}, "messages[0]"),
                 ({"messages": [{"content": "a"}]}, "messages[0]"), ({"prompt": "a", "tools": []}, "tools"),
                 ({"prompt": "a", "add_generation_prompt": True}, "add_generation_prompt"),
                 ({"messages": HELLO, "tools": {}}, "tools"), ({"messages": HELLO, "chat_template_kwargs": []}, "chat_template_kwargs"),
                 ({"messages": HELLO, "continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt"),
                 ({"messages": HELLO, "continue_final_message": 1}, "continue_final_message"),
                 ({"messages": messages(("user", "no"))}, ": never"),
                 ({"messages": messages(("user", "word " * 20000))}, "messages")]
        model = self.chat_model("{% if messages[0].content == 'no' %}{{ raise_exception('never') }}{% endif %}" + TEMPLATE)
        answers = self.lines(model, [case for case, _ in cases] + [{"messages": HELLO, "max_new_tokens": 2}], status=1)
        for (case, named), answer in zip(cases, answers):
            self.assertIn(named, answer.get("error", ""), case)
        self.assertEqual(len(answers[-1]["output_ids"]), 2)

    def test_a_model_without_a_template_says_so(self):
        refused, answered = self.lines(TALES, [{"messages": HELLO}, {"prompt": "a"}], status=1)
        self.assertIn("--chat-template", refused["error"])
        self.assertIn("output_ids", answered)
        model = self.chat_model("{{ messages[ }}")
        refused, again, answered = self.lines(model, [{"messages": HELLO}, {"messages": HELLO}, {"prompt": "a"}], status=1)
        for each in (refused, again):
            self.assertIn("tokenizer_config.json: chat_template, line 1, column", each["error"])


class Constraints(ChatTest):
    def test_regex_grammar_and_choice(self):
        more = {"max_new_tokens": 24, "temperature": 1, "seed": 5}
        answers, _ = self.answers([
            dict(more, prompt="a", regex="[0-9]{3}-[a-f]{2}"), dict(more, prompt="a", grammar='root ::= "x" [yz] "w"'),
            dict(more, prompt="a", choice=["perhaps", "never"]), dict(more, prompt="a", schema={"enum": ["é", 3]})])
        self.assertRegex(answers[0]["text"], "^[0-9]{3}-[a-f]{2}$")
        self.assertRegex(answers[1]["text"], "^x[yz]w$")
        self.assertIn(answers[2]["text"], ["perhaps", "never"])
        self.assertIn(answers[3]["text"], ['"é"', "3"])
        self.assertEqual({a["finish_reason"] for a in answers}, {"stop"})

    def test_what_is_refused_is_named(self):
        cases = [({"regex": "("}, "regex"), ({"regex": 1}, "regex"), ({"grammar": "root ::= ("}, "grammar"),
                 ({"choice": []}, "choice"), ({"choice": "a"}, "choice"), ({"choice": [1]}, "choice"),
                 ({"regex": "a", "choice": ["a"]}, "choice"), ({"schema": {}, "grammar": "root ::= \"a\""}, "grammar")]
        answers, _ = self.answers([dict(case, prompt="a") for case, _ in cases], status=1)
        for (case, named), answer in zip(cases, answers):
            self.assertIn(named, answer.get("error", ""), case)


if __name__ == "__main__":
    support.main()
