"""tenon verify --from-api: answers of OpenAI's API, from any server, against this model."""
import copy
import json

import support
from chat_support import TEMPLATE, ChatTest, messages
from support import TALES, as_lines, json_lines, tenon

KING = "Once upon a time"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"], "additionalProperties": False}}}
DATED = "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} " + TEMPLATE


class Replay(ChatTest):
    def asked(self, model, *bodies):
        """Lines of the requests with the answers of `tenon run`."""
        def line(i, body):
            url = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            return {"custom_id": str(i), "method": "POST", "url": url, "body": body}

        requests = [line(i, body) for i, body in enumerate(bodies)]
        return [{"request": r, "response": a} for r, a in zip(requests, self.lines(model, requests))]

    def replay(self, model, *lines, options=(), status=0):
        done = tenon("verify", "--from-api", "-", "--model", model, "--threads", 1, *options, stdin=as_lines(lines))
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        self.assertTrue(done.stdout.isascii())
        self.counts = json.loads(done.stderr.strip().split("\n")[-1])
        return json_lines(done.stdout)

    def body(self, line):
        return line["response"]["response"]["body"]

    def changed(self, line, change):
        line = copy.deepcopy(line)
        change(self.body(line))
        return line

    def test_answers_of_this_model_are_the_same(self):
        model = self.chat_model()
        said = {"messages": messages(("user", "Hello")), "temperature": 0, "max_tokens": 8}
        text = {"prompt": KING, "temperature": 0, "max_tokens": 12}
        bodies = [text, text | {"logprobs": 2}, text | {"stop": ["the", ","], "presence_penalty": 0.5, "logit_bias": {"5": -2}},
                  text | {"prompt": [5, 6, 7], "n": 2, "ignore_eos": True}, text | {"regex": "[a-z ]{4,30}"},
                  said, said | {"logprobs": True, "top_logprobs": 2}, said | {"tools": [TOOL], "tool_choice": "required", "max_tokens": 60},
                  said | {"tools": [TOOL], "max_tokens": 60}, said | {"response_format": {"type": "json_object"}},
                  text | {"adapter": str(TALES / "adapters" / "weather")}]
        lines = self.asked(model, *bodies)
        for options in [[], ["--draft", "none"], ["--token-budget", "7", "--batch", "2"]]:
            found = self.replay(model, *lines, options=options)
            self.assertEqual([(f["id"], f["same"], "not_compared" in f) for f in found], [(str(i), True, False) for i in range(len(bodies))])
            self.assertEqual([f.get("logprob_difference") for f in found], [0 if "logprobs" in body else None for body in bodies])
            self.assertEqual(self.counts, {"same": len(bodies), "different": 0, "not_compared": 0, "logprob_difference": 0})
        usage = [self.body(line)["usage"]["completion_tokens"] for line in lines]
        self.assertEqual([f["tokens"] for f in found], usage)
        self.assertIn("tool_calls", self.body(lines[7])["choices"][0]["message"])

    def test_bodies_alone_are_lines_too(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 8})
        body = line["request"]["body"]
        forms = [{"id": 7, "request": body, "response": self.body(line)}, {"request": body, "response": line["response"]["response"]},
                 dict(line["request"], response=line["response"]["response"])]
        self.assertEqual([(f["id"], f["same"]) for f in self.replay(TALES, *forms)], [(7, True), (None, True), ("0", True)])
        file = self.folder / "answers.jsonl"
        file.write_text(as_lines(forms))
        done = tenon("verify", "--from-api", file, "--model", TALES)
        self.assertEqual((done.returncode, len(json_lines(done.stdout))), (0, 3))

    def test_the_first_difference_is_named(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 12, "logprobs": 0})
        choice = self.body(line)["choices"][0]
        tokens, offsets = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
        self.assertEqual("".join(tokens), choice["text"])
        for position in [0, 5, 11]:
            def other(body):
                choice = body["choices"][0]
                choice["text"] = "".join(tokens[:position]) + "@" + "".join(tokens[position + 1:])
                choice["logprobs"]["tokens"][position] = "@"

            (found,) = self.replay(TALES, self.changed(line, other), status=1)
            self.assertEqual([found[key] for key in ["same", "field", "position", "character", "tokens"]],
                             [False, "choices[0].text", position, offsets[position], position])
            self.assertTrue(found["theirs"].startswith("@"))
            self.assertTrue(choice["text"][offsets[position]:].startswith(found["ours"]) and found["ours"])
            self.assertEqual(found.get("logprob_difference"), 0 if position else None)
        shorter = self.changed(line, lambda body: body["choices"][0].update(text="".join(tokens[:7])))
        longer = self.changed(line, lambda body: body["choices"][0].update(text=choice["text"] + " more"))
        found = self.replay(TALES, shorter, longer, status=1)
        self.assertEqual([(f["position"], f["theirs"]) for f in found], [(7, ""), (12, " more")])
        self.assertEqual([f["ours"] for f in found][1], "")
        reason = self.changed(line, lambda body: body["choices"][0].update(finish_reason="stop"))
        (found,) = self.replay(TALES, reason, status=1)
        self.assertEqual([found[key] for key in ["field", "theirs", "ours"]], ["choices[0].finish_reason", "stop", "length"])

    def test_logprobs_are_compared(self):
        model = self.chat_model()
        lines = self.asked(model, {"prompt": KING, "temperature": 0, "max_tokens": 6, "logprobs": 0},
                           {"messages": messages(("user", "Hello")), "temperature": 0, "max_tokens": 6, "logprobs": True})

        def louder(body):
            logprobs = body["choices"][0]["logprobs"]
            if "content" in logprobs:
                logprobs["content"][4]["logprob"] += 0.25
            else:
                logprobs["token_logprobs"][4] -= 0.125

        found = self.replay(model, *(self.changed(line, louder) for line in lines))
        self.assertEqual([f["same"] for f in found], [True, True])
        for f, expected in zip(found, [0.125, 0.25]):
            self.assertAlmostEqual(f["logprob_difference"], expected, places=6)
        self.assertAlmostEqual(self.counts["logprob_difference"], 0.25, places=6)

    def test_token_ids_are_compared(self):
        request = {"prompt": KING, "max_new_tokens": 8}
        (own,) = self.lines(TALES, [request])
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 8})
        right = self.changed(line, lambda body: body["choices"][0].update(token_ids=own["output_ids"]))
        wrong = self.changed(right, lambda body: body["choices"][0]["token_ids"].__setitem__(3, 0))
        found = self.replay(TALES, right, wrong, status=1)
        self.assertEqual([f["same"] for f in found], [True, False])
        self.assertEqual([found[1][key] for key in ["field", "position", "theirs", "ours"]],
                         ["choices[0].token_ids", 3, "0", str(own["output_ids"][3])])

    def test_draws_are_compared_where_they_are_known(self):
        drawn = {"prompt": KING, "max_tokens": 8, "logprobs": 0}
        unseeded, seeded, several = self.asked(TALES, drawn, drawn | {"seed": 7}, drawn | {"seed": 7, "n": 2, "temperature": 0.7})
        (own,) = self.lines(TALES, [{"prompt": KING, "max_new_tokens": 1, "receipt": True}])
        fingerprint = {"system_fingerprint": "fp_" + own["receipt"]["fingerprint"][:16]}
        signed = [self.changed(line, lambda body: body.update(fingerprint)) for line in [unseeded, seeded, several]]
        found = self.replay(TALES, unseeded, seeded, *signed, status=1)
        self.assertEqual([f["same"] for f in found], [None, None, None, True, True])
        self.assertEqual([list(f.get("not_compared", {})) for f in found],
                         [["request.seed"], ["response.system_fingerprint"], ["request.seed"], [], []])
        # The tokens that were drawn are scored in any case.
        for f in found:
            self.assertLess(f["logprob_difference"], 1e-5)
        other = self.changed(signed[1], lambda body: body["choices"][0].update(text="Another answer"))
        (found,) = self.replay(TALES, other, status=1)
        self.assertEqual((found["same"], found["position"]), (False, 0))

    def test_scores_find_another_model(self):
        adapter = str(TALES / "adapters" / "weather")
        (line,) = self.asked(TALES, {"prompt": KING, "max_tokens": 24, "logprobs": 0, "adapter": adapter})
        (right,) = self.replay(TALES, line, status=1)
        del line["request"]["body"]["adapter"]
        (wrong,) = self.replay(TALES, line, status=1)
        self.assertLess(right["logprob_difference"], 1e-5)
        self.assertGreater(wrong["logprob_difference"], 1e-2)

    def test_a_length_of_the_server_is_no_difference(self):
        lines = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 40})
        for line in lines:
            del line["request"]["body"]["max_tokens"]
        (found,) = self.replay(TALES, *lines)
        self.assertEqual((found["same"], found["tokens"]), (True, 40))
        ended = self.changed(lines[0], lambda body: body["choices"][0].update(finish_reason="stop"))
        (found,) = self.replay(TALES, ended, status=1)
        self.assertEqual((found["field"], found["position"], found["theirs"]), ("choices[0].text", 40, ""))

    def test_templates_see_the_time_of_the_answer(self):
        model = self.chat_model(DATED)
        (line,) = self.asked(model, {"messages": messages(("user", "Hello")), "temperature": 0, "max_tokens": 20})
        (found,) = self.replay(model, line)
        self.assertTrue(found["same"])
        # The greedy answer depends on the date: another time gives another answer.
        other = self.changed(line, lambda body: body.update(created=body["created"] - 12_345_678))
        (found,) = self.replay(model, other, status=1)
        self.assertFalse(found["same"])

    def test_a_model_may_be_an_adapter(self):
        body = {"prompt": KING, "temperature": 0, "max_tokens": 12}
        (line,) = self.asked(TALES, body | {"adapter": str(TALES / "adapters" / "shakespeare")})
        del line["request"]["body"]["adapter"]
        line["request"]["body"]["model"] = "shakespeare"
        (found,) = self.replay(TALES, line, options=["--adapter-root", TALES / "adapters"])
        self.assertTrue(found["same"])
        (found,) = self.replay(TALES, line, status=1)
        self.assertFalse(found["same"])

    def test_prompts_of_another_length_are_told(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 4})
        tokens = self.body(line)["usage"]["prompt_tokens"]
        (found,) = self.replay(TALES, self.changed(line, lambda body: body["usage"].update(prompt_tokens=tokens + 2)))
        self.assertEqual(found["prompt_tokens"], {"theirs": tokens + 2, "ours": tokens})

    def test_what_cannot_be_compared_is_named(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 4})

        def with_field(**fields):
            other = copy.deepcopy(line)
            other["request"]["body"].update(fields)
            return other

        ignored = with_field(stream=True, receipt=True, return_token_ids=True, user="u", prediction={"type": "content", "content": "x"})
        cases = [("request.echo", with_field(echo=True)), ("request.min_tokens", with_field(min_tokens=2)),
                 ("request.prompt", with_field(prompt=["a", "b"])), ("request.temperature", with_field(temperature="hot")),
                 ("request.top_p", with_field(top_p=2)), ("request.max_tokens", with_field(max_tokens="x")), ("response.choices", with_field(n=2)),
                 ("response", self.changed(line, lambda body: (body.clear(), body.update(error={"message": "no"})))),
                 ("response.usage.prompt_tokens", self.changed(line, lambda body: body["usage"].update(prompt_tokens=2**63))),
                 ("response.choices.token_ids", self.changed(line, lambda body: body["choices"][0].update(token_ids=["5"]))),
                 ("response.choices.logprobs.content.bytes", self.changed(line, lambda body: body["choices"][0].update(
                     logprobs={"content": [{"token": ",", "bytes": [300], "logprob": -1}]}))),
                 ("response.choices", self.changed(line, lambda body: body.update(choices=[]))),
                 ("response.choices.text", self.changed(line, lambda body: body["choices"][0].pop("text"))),
                 ("response.custom_id", {"request": line["request"], "response": dict(line["response"], custom_id="b")}),
                 ("response", {"request": {"prompt": KING}}), ("request", {"response": self.body(line)}),
                 ("request.messages", {"request": {"messages": messages(("user", "a"))}, "response": {"choices": [{"message": {"content": "b"}}]}})]
        found = self.replay(TALES, ignored, *(case for _, case in cases), "[]", "no json", status=1)
        self.assertEqual(found[0]["same"], True)
        self.assertEqual([f["same"] for f in found[1:]], [None] * (len(cases) + 2))
        self.assertEqual([list(f["not_compared"]) for f in found[1:-2]], [[field] for field, _ in cases])
        self.assertTrue(all(f["not_compared"] for f in found[1:]))

    def test_halves_of_characters_name_no_tokens(self):
        drawn = {"prompt": [2248, 337, 597, 220, 158, 246], "max_tokens": 6, "logprobs": 1, "logit_bias": {"225": 100}}
        unclear, greedy = self.asked(TALES, drawn, drawn | {"temperature": 0})
        self.assertEqual(self.body(unclear)["choices"][0]["logprobs"]["tokens"], ["\ufffd"] * 6)
        with_ids = self.changed(unclear, lambda body: body["choices"][0].update(token_ids=[225] * 6))
        found = self.replay(TALES, unclear, greedy, with_ids, status=1)
        self.assertEqual([f["same"] for f in found], [None, True, None])
        self.assertEqual(["choices[0].logprobs" in f.get("not_compared", {}) for f in found], [True, True, False])
        self.assertEqual(["logprob_difference" in f for f in found], [False, False, True])
        self.assertLess(found[2]["logprob_difference"], 1e-5)

    def test_answers_say_how_many_tokens_they_have(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 8, "logprobs": 0})
        del line["request"]["body"]["max_tokens"]
        emptied = self.changed(line, lambda body: body["choices"][0].update(text=""))
        no_ids = self.changed(line, lambda body: body["choices"][0].update(token_ids=[]))
        nothing = self.changed(emptied, lambda body: (body["choices"][0].update(logprobs=None), body.pop("usage")))
        found = self.replay(TALES, line, emptied, no_ids, nothing, status=1)
        self.assertEqual([f["same"] for f in found], [True, False, False, None])
        self.assertEqual([f.get("field") for f in found], [None, "choices[0].text", "choices[0].token_ids", None])

    def test_the_token_that_ends_may_have_no_text(self):
        (line,) = self.asked(TALES, {"prompt": KING, "max_tokens": 4, "logprobs": 0, "logit_bias": {"4095": 100}})
        self.assertEqual(self.body(line)["choices"][0]["logprobs"]["tokens"], ["<|endoftext|>"])
        older = self.changed(line, lambda body: body["choices"][0]["logprobs"].update(tokens=[""]))
        for found in self.replay(TALES, line, older, status=1):
            self.assertLess(found["logprob_difference"], 1e-5)

    def test_top_k_of_vllm(self):
        (line,) = self.asked(TALES, {"prompt": KING, "temperature": 0, "max_tokens": 4})
        line["request"]["body"]["top_k"] = -1
        self.assertTrue(self.replay(TALES, line)[0]["same"])

    def test_files_without_lines(self):
        folder = tenon("verify", "--from-api", self.folder, "--model", TALES)
        self.assertNotEqual(folder.returncode, 0)
        self.assertIn("is a folder", folder.stderr)
        self.assertEqual(tenon("verify", "--from-api", "-", "--model", TALES).returncode, 1)

    def test_usage(self):
        for options, part in [(["--from-api", "none"], "--from-api none"), (["--from-api", "-", "--public-key", "k"], "--public-key"),
                              (["--chat-template", __file__], "--from-api")]:
            done = tenon("verify", "--model", TALES, *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    support.main()
