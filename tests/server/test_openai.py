"""The routes of OpenAI from a client's view: completions and chats, whole and streamed, models, and errors."""
import json
import pathlib
import re

import serving
from serving import NAMES, Server, ServerTest

KING = "The king said"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "mood": {"enum": ["glad", "sad"]}},
          "required": ["name", "mood"], "additionalProperties": False}
# A schema in the form that pydantic generates.
PYDANTIC = {"$defs": {"Mood": {"enum": ["glad", "sad"], "title": "Mood", "type": "string"}},
            "properties": {"mood": {"$ref": "#/$defs/Mood"}, "age": {"anyOf": [{"type": "integer", "maximum": 99, "minimum": 0},
                                                                               {"type": "null"}], "title": "Age"},
                           "tags": {"items": {"const": "x", "type": "string"}, "maxItems": 2, "type": "array"}},
            "required": ["mood", "age", "tags"], "title": "One", "type": "object", "additionalProperties": False}


def json_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "one", "strict": True, "schema": schema}}


def text_of(chunks, index=0):
    return "".join(c["choices"][0]["text"] for c in chunks if c["choices"] and c["choices"][0]["index"] == index)


def content_of(chunks):
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])


class OpenAiTest(ServerTest):
    FLAGS = ["--chat-template", "plain"]


class Completions(OpenAiTest):
    def test_the_least_that_can_be_asked(self):
        # The seed is random, so the end of text may come before the 16 tokens of the default.
        answer = next(a for a in (self.complete() for _ in range(20)) if a["choices"][0]["finish_reason"] == "length")
        self.assertEqual(set(answer), {"id", "object", "created", "model", "system_fingerprint", "choices", "usage"})
        self.assertRegex(answer["id"], r"^cmpl-.{8,}$")
        self.assertEqual((answer["object"], answer["model"]), ("text_completion", "tales"))
        self.assertIsInstance(answer["created"], int)
        choice, = answer["choices"]
        self.assertEqual(set(choice), {"index", "text", "finish_reason", "logprobs"})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "length", None))
        self.assertEqual(answer["usage"], {"prompt_tokens": 3, "completion_tokens": 16, "total_tokens": 19})  # the default of 16 tokens
        self.assertNotEqual(self.complete()["id"], answer["id"])

    def test_as_lorax_answers(self):
        lorax = self.generate(max_new_tokens=20)["generated_text"]
        self.assertEqual(self.complete(max_tokens=20, temperature=0)["choices"][0]["text"], lorax)
        lorax = self.generate(max_new_tokens=20, do_sample=True, seed=5)["generated_text"]
        self.assertEqual(self.complete(max_tokens=20, seed=5)["choices"][0]["text"], lorax)  # sampling is the default

    def test_a_prediction_changes_no_answer(self):
        plain = self.complete(max_tokens=40, temperature=0)
        text = plain["choices"][0]["text"]
        parts = [{"type": "text", "text": text[:20]}, {"type": "text", "text": text[20:]}]
        for content, right in [(text, True), (parts, True), ("Something else altogether was said.", False)]:
            answer = self.complete(max_tokens=40, temperature=0, prediction={"type": "content", "content": content})
            self.assertEqual(answer["choices"], plain["choices"])
            details = answer["usage"]["completion_tokens_details"]
            self.assertEqual(set(details), {"accepted_prediction_tokens", "rejected_prediction_tokens"})
            self.assertEqual(details["accepted_prediction_tokens"] > 10, right, details)
        self.assertNotIn("completion_tokens_details", plain["usage"])

    def test_what_is_no_prediction_is_refused(self):
        for prediction, field in [({"type": "text", "content": "a"}, "prediction.type"), ({"type": "content"}, "prediction.content"),
                                  ("a", "prediction"), ({"type": "content", "content": [{"type": "image_url"}]}, "prediction.content[0].type")]:
            self.refused_openai("/v1/completions", {"prompt": "a", "prediction": prediction}, 400, "invalid_request_error", field)

    def test_null_is_absent(self):
        nulls = dict.fromkeys(["model", "n", "stop", "stream", "stream_options", "presence_penalty", "frequency_penalty", "logit_bias",
                               "user", "best_of",
                               "echo", "suffix", "logprobs", "max_tokens", "top_p", "response_format", "top_k", "min_p",
                               "repetition_penalty",
                               "ignore_eos", "min_tokens", "adapter_id", "adapter_source"])
        self.assertEqual(self.complete(temperature=0, **nulls)["choices"], self.complete(temperature=0)["choices"])
        self.assertEqual(len(self.complete(temperature=None, seed=None, max_tokens=4)["choices"]), 1)

    def test_what_is_without_effect_is_accepted_and_what_is_unknown_refused(self):
        plain = self.complete(temperature=0)["choices"]
        more = {"user": "me", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "no_such": None, "api_token": "t"}
        self.assertEqual(self.complete(temperature=0, **more)["choices"], plain)
        self.refused_openai("/v1/completions", {"prompt": KING, "no_such": [1]}, 400, "invalid_request_error", "no_such")

    def test_the_model_is_echoed(self):
        for asked, shown in [("", "tales"), ("tales", "tales"), ("weather", "weather")]:
            self.assertEqual(self.complete(model=asked, max_tokens=1)["model"], shown)
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "model": "weather", "max_tokens": 2})
        self.assertEqual({c["model"] for c in chunks}, {"weather"})

    def test_adapters_by_model_or_adapter_id(self):
        for name in NAMES:
            one = self.complete(model=name, temperature=0)["choices"]
            self.assertEqual(self.complete(adapter_id=name, temperature=0)["choices"], one)
            self.assertEqual(self.complete(adapter_id=name, model="tales", adapter_source="local", temperature=0)["choices"], one)
            self.assertEqual(one[0]["text"], self.generate(adapter_id=name, max_new_tokens=16)["generated_text"])
        self.refused_openai("/v1/completions", {"prompt": KING, "model": "weather", "adapter_id": "shakespeare"}, 400,
                            "invalid_request_error", "adapter_id")

    def test_prompts_of_all_forms(self):
        ids = [t["id"] for t in self.server.post("/tokenize", {"inputs": KING}).json()]
        asked = dict(temperature=0, max_tokens=6)
        one, rain = (self.complete(p, **asked)["choices"][0]["text"] for p in [KING, "Rain"])
        self.assertEqual(self.complete(ids, **asked)["choices"][0]["text"], one)
        self.assertEqual(self.complete([ids], **asked)["choices"][0]["text"], one)
        both = self.complete([KING, "Rain"], **asked)
        self.assertEqual([(c["index"], c["text"]) for c in both["choices"]], [(0, one), (1, rain)])
        self.assertEqual(both["usage"], {"prompt_tokens": 3 + self.complete("Rain", **asked)["usage"]["prompt_tokens"],
                                         "completion_tokens": 12,
                                         "total_tokens": both["usage"]["prompt_tokens"] + 12})
        lists = self.complete([ids, ids[:1], ids], **asked)["choices"]
        self.assertEqual([lists[0]["text"], lists[2]["text"]], [one, one])
        self.assertEqual(self.complete(ids, echo=True, **asked)["choices"][0]["text"], KING + one)

    def test_n_counts_seeds_up(self):
        for n in [1, 3, 8]:
            choices = self.complete(n=n, seed=100, max_tokens=8)["choices"]
            self.assertEqual([c["index"] for c in choices], list(range(n)))
            for i, choice in enumerate(choices):
                self.assertEqual(self.complete(seed=100 + i, max_tokens=8)["choices"][0]["text"], choice["text"])
        both = self.complete([KING, "Rain"], n=2, seed=7, max_tokens=8)["choices"]  # index = prompt * n + choice
        for i, (prompt, seed) in enumerate([(KING, 7), (KING, 8), ("Rain", 7), ("Rain", 8)]):
            self.assertEqual(both[i]["index"], i)
            self.assertEqual(both[i]["text"], self.complete(prompt, seed=seed, max_tokens=8)["choices"][0]["text"])
        usage = self.complete(n=3, max_tokens=5, ignore_eos=True)["usage"]
        self.assertEqual(usage, {"prompt_tokens": 3, "completion_tokens": 15, "total_tokens": 18})
        self.assertEqual(len(self.complete(n=2, best_of=2, max_tokens=1)["choices"]), 2)
        one, other = (self.complete(seed=s, max_tokens=12)["choices"][0]["text"] for s in [-2, -3])  # seeds are int64
        self.assertNotEqual(one, other)

    def test_logprobs(self):
        plain = self.complete(temperature=0, max_tokens=6)["choices"][0]["text"]
        for k in [0, 1, 5]:
            choice = self.complete(temperature=0, max_tokens=6, logprobs=k)["choices"][0]
            found = choice["logprobs"]
            self.assertEqual(choice["text"], plain)
            self.assertEqual(set(found), {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
            self.assertEqual({len(v) for v in found.values()}, {6})
            self.assertEqual("".join(found["tokens"]), plain)
            for token, value, top, offset in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"], found["text_offset"]):
                self.assertTrue(plain[offset:].startswith(token))
                if k:
                    self.assertEqual(len(top), k)
                    self.assertEqual(top[token], value)
                    self.assertEqual(max(top.values()), value)
                else:
                    self.assertEqual(top, {token: value}, "only the chosen token")
        lorax = self.generate(max_new_tokens=6, details=True)["details"]["tokens"]
        self.assertEqual(found["token_logprobs"], [t["logprob"] for t in lorax])

    def test_echo(self):
        plain = self.complete(temperature=0, max_tokens=5)["choices"][0]["text"]
        self.assertEqual(self.complete(temperature=0, max_tokens=5, echo=True)["choices"][0]["text"], KING + plain)
        choice = self.complete(temperature=0, max_tokens=5, echo=True, logprobs=2)["choices"][0]
        found = choice["logprobs"]
        self.assertEqual({len(v) for v in found.values()}, {8})
        self.assertEqual("".join(found["tokens"]), choice["text"])
        self.assertEqual((found["token_logprobs"][0], found["top_logprobs"][0]), (None, None))
        for token, offset in zip(found["tokens"], found["text_offset"]):
            self.assertTrue(choice["text"][offset:].startswith(token))
        prefill = self.generate(max_new_tokens=1, decoder_input_details=True)["details"]["prefill"]
        self.assertEqual(found["token_logprobs"][:3], [t["logprob"] for t in prefill])
        bare = self.complete(temperature=0, max_tokens=5, logprobs=2)["choices"][0]["logprobs"]
        for key in ["tokens", "token_logprobs", "top_logprobs"]:
            self.assertEqual(found[key][3:], bare[key])
        # Each prompt has its own log-probabilities, equal for all its choices.
        several = self.complete(["Rain fell", KING], n=2, seed=1, max_tokens=3, echo=True, logprobs=1)["choices"]
        self.assertEqual(several[2]["logprobs"]["token_logprobs"][:3], found["token_logprobs"][:3])
        self.assertEqual(several[3]["logprobs"]["token_logprobs"][:3], found["token_logprobs"][:3])
        for choice in several:
            self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])

    def test_stop_is_removed(self):
        whole = self.complete(temperature=0, max_tokens=24)["choices"][0]["text"]
        for begin, end in [(3, 5), (7, 12), (len(whole) - 6, len(whole) - 3)]:
            stop = whole[begin:end]
            cut = whole[:whole.find(stop)]
            for given in [stop, [stop], ["never said", stop]]:
                answer = self.complete(temperature=0, max_tokens=24, stop=given)
                self.assertEqual((answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]), (cut, "stop"))
            chunks = self.openai_stream("/v1/completions", {"prompt": KING, "temperature": 0, "max_tokens": 24, "stop": stop})
            self.assertEqual(text_of(chunks), cut)
            self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")
            scored = self.complete(temperature=0, max_tokens=24, stop=stop, logprobs=1)["choices"][0]
            self.assertEqual(scored["text"], cut)
            self.assertEqual(len({len(v) for v in scored["logprobs"].values()}), 1)
            self.assertTrue("".join(scored["logprobs"]["tokens"]).startswith(cut))
            self.assertTrue(all(offset < len(cut) for offset in scored["logprobs"]["text_offset"]))

    def test_what_may_become_a_stop_string_is_held_back(self):
        whole = self.complete(temperature=0, max_tokens=24)["choices"][0]["text"]
        almost = whole[4:16] + "\u00df"  # begins like the text and then differs
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "temperature": 0, "max_tokens": 24, "stop": almost})
        self.assertEqual(text_of(chunks), whole)
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        seen = ""
        for chunk in chunks:
            seen += chunk["choices"][0]["text"]
            self.assertFalse(4 < len(seen) < 16, "half of it was sent: " + seen)
        # At the end of the text it is released.
        tail = self.complete(temperature=0, max_tokens=24, stop=whole[-2:] + "\u00df")["choices"][0]
        self.assertEqual((tail["text"], tail["finish_reason"]), (whole, "length"))
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "temperature": 0, "max_tokens": 24, "stop": whole[-2:] + "\u00df"})
        self.assertEqual(text_of(chunks), whole)

    def test_the_end_of_text_is_a_stop(self):
        answer = self.complete("The end", model="weather", temperature=0, max_tokens=400, logprobs=1)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertNotIn("<|endoftext|>", choice["text"])
        *words, end = choice["logprobs"]["tokens"]
        self.assertEqual(("".join(words), end), (choice["text"], "<|endoftext|>"))  # the text lacks the end token
        self.assertEqual(answer["usage"]["completion_tokens"], len(choice["logprobs"]["tokens"]))
        self.assertEqual(choice["logprobs"]["text_offset"][-1], len(choice["text"]))
        for word in ["ignore_eos", "ignore_eos_token"]:
            on = self.complete("The end", model="weather", temperature=0, max_tokens=100, **{word: True})
            self.assertEqual((on["choices"][0]["finish_reason"], on["usage"]["completion_tokens"]), ("length", 100))
        least = self.complete("The end", model="weather", temperature=0, max_tokens=100, min_tokens=90)
        self.assertGreaterEqual(least["usage"]["completion_tokens"], 90)

    def test_stop_strings_after_the_fewest_tokens(self):
        asked = dict(temperature=0, max_tokens=40, return_token_ids=True)
        plain = self.complete(**asked)["choices"][0]
        word = plain["text"].split()[1]
        self.assertLess(self.complete(stop=word, **asked)["usage"]["completion_tokens"], 10)
        for least in [10, 40]:
            later = self.complete(stop=word, min_tokens=least, **asked)
            choice, count = later["choices"][0], later["usage"]["completion_tokens"]
            self.assertEqual(choice["token_ids"], plain["token_ids"][:count])
            self.assertGreaterEqual(count, least)
            self.assertTrue(plain["text"].startswith(choice["text"]))
            self.assertIn(word, choice["text"])
            chunks = self.openai_stream("/v1/completions", {"prompt": KING, "stop": word, "min_tokens": least} | asked)
            self.assertEqual(text_of(chunks), choice["text"])
        plain = self.generate(max_new_tokens=40)["generated_text"]
        later = self.generate(max_new_tokens=40, stop=[word], min_new_tokens=10, details=True)
        self.assertGreaterEqual(later["details"]["generated_tokens"], 10)
        self.assertTrue(plain.startswith(later["generated_text"]))
        # The template of this server stops at texts, too.
        chat = self.chat(max_tokens=20, min_tokens=20, temperature=0)
        self.assertEqual(chat["usage"]["completion_tokens"], 20)

    def test_top_p_of_zero_is_greedy(self):
        greedy = self.chat(temperature=0, max_tokens=12)["choices"]
        self.assertEqual(self.chat(top_p=0, max_tokens=12)["choices"], greedy)
        rest = self.complete(temperature=0, n_predict=-1, max_tokens=None, ignore_eos=True)["usage"]
        self.assertEqual(rest["total_tokens"], 1024)

    def test_tokens_in_the_forms_of_peers(self):
        placed = self.server.post("/tokenize", {"inputs": KING}).json()
        ids = [t["id"] for t in placed]
        vllm = self.server.post("/tokenize", {"model": "tales", "prompt": KING}).json()
        self.assertEqual(vllm, {"count": len(ids), "max_model_len": 1024, "tokens": ids, "token_strs": None})
        texts = self.server.post("/tokenize", {"prompt": KING, "return_token_strs": True}).json()["token_strs"]
        self.assertEqual("".join(texts), KING)
        self.assertEqual(self.server.post("/tokenize", {"content": KING}).json(), {"tokens": ids})
        pieces = self.server.post("/tokenize", {"content": "\u00df\U0001f451", "with_pieces": True}).json()["tokens"]
        spelled = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
        self.assertEqual(spelled.decode(), "\u00df\U0001f451")
        self.assertEqual(self.server.post("/tokenize", {"content": ""}).json(), {"tokens": []})
        self.assertEqual(self.server.post("/detokenize", {"model": "tales", "tokens": ids}).json(), {"prompt": KING, "content": KING})
        self.assertEqual(self.server.post("/detokenize", {"tokens": []}).json(), {"prompt": "", "content": ""})
        for path, body, name in [("/tokenize", {"prompt": KING, "content": KING}, "prompt"), ("/tokenize", {"prompt": KING, "with_pieces": True}, "with_pieces"),
                                 ("/tokenize", {"inputs": KING, "content": KING}, "content"), ("/tokenize", {"prompt": 5}, "prompt"),
                                 ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": [4096]}, "tokens"), ("/detokenize", {"tokens": "x"}, "tokens")]:
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 422, (body, answer))
            self.assertIn("`%s`" % name, answer.json()["error"])

    def test_texts_to_tokenize_that_are_longer_than_the_context(self):
        text = KING * 3000
        ids = self.server.post("/tokenize", {"content": text}).json()["tokens"]
        self.assertGreater(len(ids), 4096)
        self.assertEqual(self.server.post("/tokenize", {"prompt": text}).json()["count"], len(ids))
        self.assertEqual(self.server.post("/detokenize", {"tokens": ids[:4096]}).status, 200)
        for path, body, name in [("/tokenize", {"content": text, "with_pieces": True}, "with_pieces"),
                                 ("/tokenize", {"prompt": text, "return_token_strs": True}, "return_token_strs"),
                                 ("/detokenize", {"tokens": ids[:4097]}, "tokens")]:
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 422, answer)
            self.assertIn("`%s`" % name, answer.json()["error"])
            self.assertIn("at most 4096 are possible", answer.json()["error"])

    def test_logit_bias(self):
        ids = [t["id"] for t in self.server.post("/tokenize", {"inputs": KING}).json()]
        self.assertEqual(self.complete(temperature=0, max_tokens=3, logit_bias={str(ids[1]): 100})["choices"][0]["text"], " king" * 3)
        plain = self.generate(max_new_tokens=1, details=True)["details"]["tokens"][0]
        self.assertNotEqual(self.complete(temperature=0, max_tokens=1, logit_bias={str(plain["id"]): -100})["choices"][0]["text"],
                            plain["text"])


class Streams(OpenAiTest):
    def test_usage_in_each_chunk(self):
        asked = {"max_tokens": 6, "temperature": 0, "n": 2, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        for path, body in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})]:
            *chunks, last = self.openai_stream(path, asked | body)
            prompt = last["usage"]["prompt_tokens"]
            for index in range(2):
                own = [c["usage"] for c in chunks if c["choices"][0]["index"] == index]
                counts = [usage["completion_tokens"] for usage in own]
                self.assertEqual((counts, counts[-1]), (sorted(counts), 6), path)
                self.assertTrue(all(usage["prompt_tokens"] == prompt and usage["total_tokens"] == prompt + usage["completion_tokens"] for usage in own))
            self.assertEqual(last["usage"]["completion_tokens"], 12)

    def test_completion_chunks(self):
        body = {"prompt": KING, "temperature": 0, "max_tokens": 6}
        chunks = self.openai_stream("/v1/completions", body)
        whole = self.complete(temperature=0, max_tokens=6)["choices"][0]
        self.assertEqual(text_of(chunks), whole["text"])
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        self.assertRegex(chunks[0]["id"], "^cmpl-")
        for chunk in chunks:
            self.assertEqual(set(chunk), {"id", "object", "created", "model", "choices", "system_fingerprint"})  # usage is present on demand only
            self.assertEqual(chunk["object"], "text_completion")
            self.assertEqual(set(chunk["choices"][0]), {"index", "text", "finish_reason", "logprobs"})
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks], [None] * (len(chunks) - 1) + ["length"])
        self.assertGreater(len(chunks), 3)

    def test_chat_chunks(self):
        body = {"messages": [{"role": "user", "content": "Who is the king?"}], "temperature": 0, "max_tokens": 6}
        chunks = self.openai_stream("/v1/chat/completions", body)
        whole = self.openai("/v1/chat/completions", body)["choices"][0]
        self.assertEqual(content_of(chunks), whole["message"]["content"])
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        self.assertRegex(chunks[0]["id"], "^chatcmpl-")
        for chunk in chunks:
            self.assertEqual(chunk["object"], "chat.completion.chunk")
            self.assertNotIn("usage", chunk)
        deltas = [c["choices"][0]["delta"] for c in chunks]
        self.assertEqual((deltas[0], deltas[-1]), ({"role": "assistant", "content": ""}, {}))
        self.assertTrue(all(list(d) == ["content"] for d in deltas[1:-1]))
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks], [None] * (len(chunks) - 1) + ["length"])

    def test_usage(self):
        for path, ask in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions",
                                                                  {"messages": [{"role": "user", "content": KING}]})]:
            body = ask | {"temperature": 0, "max_tokens": 6}
            chunks = self.openai_stream(path, body | {"stream_options": {"include_usage": True}})
            self.assertTrue(all(c["usage"] is None for c in chunks[:-1]))
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertEqual(chunks[-1]["usage"], self.openai(path, body)["usage"])
            self.assertEqual(len({c["id"] for c in chunks}), 1)
            for options in [{"include_usage": False}, {}, None]:
                self.assertTrue(all("usage" not in c for c in self.openai_stream(path, body | {"stream_options": options})))

    def test_several_choices(self):
        body = {"prompt": [KING, "Rain"], "seed": 4, "max_tokens": 10, "n": 2}
        chunks = self.openai_stream("/v1/completions", body)
        whole = self.openai("/v1/completions", body)["choices"]
        for i in range(4):
            self.assertEqual(text_of(chunks, i), whole[i]["text"])
            reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"][0]["index"] == i]
            self.assertEqual(reasons[-1], whole[i]["finish_reason"])
            self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual({c["choices"][0]["index"] for c in chunks[:8]}, {0, 1, 2, 3}, "one after the other")

    def test_logprobs(self):
        body = {"prompt": KING, "temperature": 0, "max_tokens": 8, "logprobs": 2}
        whole = self.openai("/v1/completions", body)["choices"][0]["logprobs"]
        chunks = self.openai_stream("/v1/completions", body)
        for key in ["tokens", "token_logprobs", "top_logprobs", "text_offset"]:
            self.assertEqual([each for c in chunks for each in (c["choices"][0]["logprobs"] or {key: []})[key]], whole[key])
        body = {"messages": [{"role": "user", "content": KING}], "temperature": 0, "max_tokens": 8, "logprobs": True, "top_logprobs": 2}
        whole = self.openai("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"]
        chunks = self.openai_stream("/v1/chat/completions", body)
        self.assertEqual([each for c in chunks for each in (c["choices"][0]["logprobs"] or {"content": []})["content"]], whole)

    def test_echo(self):
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "temperature": 0, "max_tokens": 4, "echo": True})
        self.assertEqual(text_of(chunks), self.complete(temperature=0, max_tokens=4, echo=True)["choices"][0]["text"])

    def test_characters_that_are_several_tokens(self):
        word = "h\u00e9\U0001f600\u6f22x"
        for path, ask in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions",
                                                                  {"messages": [{"role": "user", "content": KING}]})]:
            chunks = self.openai_stream(path, ask | {"max_tokens": 60, "response_format": json_format({"const": word})})
            said = text_of(chunks) if path == "/v1/completions" else content_of(chunks)
            self.assertEqual(json.loads(said), word)

    def test_head_and_end(self):
        with self.server.stream("/v1/completions", {"prompt": KING, "stream": True, "max_tokens": 2}) as stream:
            head = stream.headers
            events = list(stream)
        self.assertEqual([head[k] for k in ["content-type", "cache-control", "x-accel-buffering", "x-model-id"]],
                         ["text/event-stream", "no-cache", "no", "tales"])
        self.assertEqual(events[-1], "[DONE]")
        for body, status in [({"prompt": KING, "model": "nobody"}, 404), ({"prompt": ""}, 400)]:
            with self.server.stream("/v1/completions", body | {"stream": True}) as stream:
                self.assertEqual((stream.status, stream.headers["content-type"]), (status, "application/json"))


class Chats(OpenAiTest):
    def test_the_least_that_can_be_asked(self):
        answer = self.chat(max_tokens=5)
        self.assertEqual(set(answer), {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"})
        self.assertRegex(answer["id"], r"^chatcmpl-.{8,}$")
        self.assertEqual((answer["object"], answer["model"]), ("chat.completion", "tales"))
        self.assertRegex(answer["system_fingerprint"], r"^fp_[0-9a-f]{16}$")
        choice, = answer["choices"]
        self.assertEqual(set(choice), {"index", "message", "finish_reason", "logprobs"})
        self.assertEqual(set(choice["message"]), {"role", "content", "refusal"})
        self.assertEqual((choice["message"]["role"], choice["message"]["refusal"], choice["logprobs"]), ("assistant", None, None))
        self.assertEqual((choice["finish_reason"], answer["usage"]["completion_tokens"]), ("length", 5))

    def test_the_prompt_of_the_plain_form(self):
        asked = dict(temperature=0, max_tokens=8)
        chat = self.openai("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be kind."},
                                                                 {"role": "user", "content": "Hello"},
                                                                 {"role": "assistant", "content": "Yes"},
                                                                 {"role": "user", "content": "Who?"}]} | asked)
        text = "System: Be kind.\nUser: Hello\nAssistant: Yes\nUser: Who?\nAssistant:"
        plain = self.complete(text, **asked)
        self.assertEqual(chat["choices"][0]["message"]["content"], plain["choices"][0]["text"])
        self.assertEqual(chat["usage"], plain["usage"])

    def test_forms_of_messages(self):
        one = self.chat("Hello you", temperature=0, max_tokens=5)["choices"]
        for message in [{"role": "user", "content": [{"type": "text", "text": "Hello you"}]},
                        {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "you"}], "name": None}]:
            self.assertEqual(self.openai("/v1/chat/completions", {"messages": [message], "temperature": 0, "max_tokens": 5})["choices"],
                             one)
        for more in [{"tools": []}, {"tools": None, "tool_choice": "none"}, {"functions": []}]:
            self.assertEqual(self.chat("Hello you", temperature=0, max_tokens=5, **more)["choices"], one)
        for role in ["system", "developer", "assistant"]:
            self.openai("/v1/chat/completions", {"messages": [{"role": role, "content": "a"}, {"role": "user", "content": "b"}],
                                                 "max_tokens": 1})

    def test_a_turn_that_the_template_has_not(self):
        body = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
        with Server("--chat-template", "mistral") as server:
            error = server.post("/v1/chat/completions", body).json()["error"]
            self.assertEqual((error["type"], error["param"]), ("invalid_request_error", "messages"))
            self.assertRegex(error["message"], "line [0-9]+, column [0-9]+: roles must alternate")
            self.assertEqual(server.stop(), 0)

    def test_lengths(self):
        self.assertEqual(self.chat(max_completion_tokens=3)["usage"]["completion_tokens"], 3)
        self.assertEqual(self.chat(max_completion_tokens=3, max_tokens=3)["usage"]["completion_tokens"], 3)
        self.refused_openai("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 3,
                                                     "max_tokens": 5}, 400, "invalid_request_error", "max_tokens")
        rest = self.chat("word " * 750, temperature=0, ignore_eos=True, stop=None)  # the default is the rest of the context
        if rest["choices"][0]["finish_reason"] == "length":
            self.assertEqual(rest["usage"]["total_tokens"], 1024)

    def test_logprobs(self):
        plain = self.chat(temperature=0, max_tokens=6)["choices"][0]
        for k in [None, 0, 1, 20]:
            choice = self.chat(temperature=0, max_tokens=6, logprobs=True, top_logprobs=k)["choices"][0]
            self.assertEqual(choice["message"], plain["message"])
            self.assertEqual(set(choice["logprobs"]), {"content", "refusal"})
            listed = choice["logprobs"]["content"]
            self.assertEqual("".join(t["token"] for t in listed), choice["message"]["content"])
            for token in listed:
                self.assertEqual(set(token), {"token", "logprob", "bytes", "top_logprobs"})
                self.assertEqual(bytes(token["bytes"]).decode(), token["token"])
                self.assertEqual(len(token["top_logprobs"]), k or 0)
                for each in token["top_logprobs"]:
                    self.assertEqual(set(each), {"token", "logprob", "bytes"})
                if k:
                    self.assertEqual(token["top_logprobs"][0], {key: token[key] for key in ["token", "logprob", "bytes"]})
        self.assertIsNone(self.chat(max_tokens=1, logprobs=False)["choices"][0]["logprobs"])

    def test_bytes_of_halves_of_characters(self):
        choice = self.chat(max_tokens=40, logprobs=True, response_format=json_format({"const": "\U0001f600"}))["choices"][0]
        listed = choice["logprobs"]["content"]
        self.assertEqual(bytes(b for t in listed for b in t["bytes"]).decode(), choice["message"]["content"])
        self.assertEqual(json.loads(choice["message"]["content"]), "\U0001f600")

    def test_n_and_seed(self):
        both = self.chat(n=2, seed=30, max_tokens=8)["choices"]
        for i in range(2):
            self.assertEqual(self.chat(seed=30 + i, max_tokens=8)["choices"][0]["message"], both[i]["message"])

    def test_adapters(self):
        texts = {self.chat(model=name, temperature=0, max_tokens=12)["choices"][0]["message"]["content"] for name in NAMES + ["tales"]}
        self.assertEqual(len(texts), 4)

    def test_refusals(self):
        user = {"role": "user", "content": "a"}
        cases = [({}, "messages"), ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": "hello"}, "messages"),
                 ({"messages": ["hello"]}, "messages[0]"), ({"messages": [user, {"content": "a"}]}, "messages[1].role"),
                 ({"messages": [{"role": "pirate", "content": "a"}]}, "messages[0].role"),
                 ({"messages": [{"role": "user"}]}, "messages[0].content"),
                 ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
                 ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]},
                  "messages[0].content[0].type"),
                 ({"messages": [user], "tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
                 ({"messages": [user], "tool_choice": "required"}, "tool_choice"),
                 ({"messages": [user], "functions": [{"name": "f"}]}, "functions"),
                 ({"messages": [user], "top_logprobs": 2}, "top_logprobs"),
                 ({"messages": [user], "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                 ({"messages": [user], "logprobs": 2}, "logprobs"),
                 ({"messages": [user], "max_completion_tokens": 0}, "max_completion_tokens"),
                 ({"messages": [user], "max_tokens": 2000}, "max_tokens"),
                 ({"messages": [user] * 1025}, "messages"),
                 ({"messages": [{"role": "user", "content": "word " * 1100}]}, "messages"),  # too many tokens, and too many bytes
                 ({"messages": [{"role": "user", "content": "a" * 200_000}]}, "messages")]
        for body, param in cases:
            self.refused_openai("/v1/chat/completions", body, 400, "invalid_request_error", param, code=...)
        answer = self.refused_openai("/v1/chat/completions", {"messages": [user], "tools": [{"type": "mcp"}]}, 400, "invalid_request_error",
                                     "tools[0].type")
        self.assertIn("not supported", answer.json()["error"]["message"])

    def test_without_a_template(self):
        for flags in [[], ["--chat-template", "none"]]:
            with Server(*flags) as server:
                answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
                self.assertEqual(answer.status, 400)
                self.assertIn("--chat-template", answer.json()["error"]["message"])
                self.assertEqual(answer.json()["error"]["type"], "invalid_request_error")
                self.assertEqual(server.stop(), 0)


class Formats(OpenAiTest):
    def test_schemas(self):
        for more in [{"temperature": 0}, {"seed": 3}, {"model": "characters", "temperature": 0}, {"temperature": 1.6, "seed": 8}]:
            choice = self.chat("A name?", max_tokens=120, response_format=json_format(SCHEMA), **more)["choices"][0]
            said = json.loads(choice["message"]["content"])
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertEqual(set(said), {"name", "mood"})
            self.assertIn(said["mood"], ["glad", "sad"])
        said = json.loads(self.chat(max_tokens=150, seed=1, response_format=json_format(PYDANTIC))["choices"][0]["message"]["content"])
        self.assertEqual(set(said), {"mood", "age", "tags"})
        for kind in [json_format(SCHEMA), {"type": "json_object", "schema": SCHEMA}]:
            self.assertEqual(set(json.loads(self.complete(max_tokens=120, temperature=0, response_format=kind)["choices"][0]["text"])),
                             {"name", "mood"})
        both = self.complete(n=2, seed=6, max_tokens=120, response_format=json_format(SCHEMA))["choices"]
        for choice in both:
            self.assertEqual(set(json.loads(choice["text"])), {"name", "mood"})

    def test_text_is_any(self):
        self.assertEqual(self.complete(temperature=0, response_format={"type": "text"})["choices"], self.complete(temperature=0)["choices"])

    def test_refused_before_generation(self):
        before = self.server.wait_quiet()["tenon_tokens_total"]
        formats = [{"type": "xml"}, {"strict": True}, "json", {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "x"}},
                   json_format({"$ref": "http://example.org"}), json_format({"type": "string", "pattern": "(a)\\1"}),
                   json_format({"type": "what"}), json_format(3)]
        for each in formats:
            for path, ask in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions",
                                                                      {"messages": [{"role": "user", "content": "a"}]})]:
                self.refused_openai(path, ask | {"response_format": each}, 400, "invalid_request_error", "response_format")
        self.assertEqual(self.server.wait_quiet()["tenon_tokens_total"], before)


class Refusals(OpenAiTest):
    def test_fields(self):
        cases = [({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [""]}, "prompt[0]"), ({"prompt": [[]]}, "prompt[0]"),
                 ({"prompt": 3}, "prompt"),
                 ({"prompt": {"a": 1}}, "prompt"), ({"prompt": ["a", 3]}, "prompt"), ({"prompt": [1, "a"]}, "prompt"),
                 ({"prompt": [-1]}, "prompt"),
                 ({"prompt": [4096]}, "prompt"), ({"prompt": [1.5]}, "prompt"), ({"prompt": None}, "prompt"),
                 ({"prompt": "word " * 1100}, "prompt"),
                 ({"temperature": -0.1}, "temperature"), ({"temperature": 2.1}, "temperature"), ({"top_p": 0}, "top_p"),
                 ({"top_p": 1.1}, "top_p"),
                 ({"n": 0}, "n"), ({"n": 9}, "n"), ({"n": 129}, "n"), ({"n": 1.5}, "n"), ({"n": True}, "n"), ({"n": "2"}, "n"),
                 ({"stop": 3}, "stop"), ({"stop": [""]}, "stop"), ({"stop": ""}, "stop"), ({"stop": ["a"] * 11}, "stop"),
                 ({"stop": [1]}, "stop"),
                 ({"stream": "yes"}, "stream"), ({"stream_options": {"include_usage": True}}, "stream_options"),
                 ({"seed": 1.5}, "seed"), ({"seed": "1"}, "seed"), ({"presence_penalty": 2.5}, "presence_penalty"),
                 ({"frequency_penalty": -2.5}, "frequency_penalty"),
                 ({"logit_bias": {"king": 1}}, "logit_bias"), ({"logit_bias": {"5": 101}}, "logit_bias"),
                 ({"logit_bias": [1]}, "logit_bias"),
                 ({"logit_bias": {"4096": 1}}, "logit_bias"),
                 ({"top_k": 1.5}, "top_k"), ({"min_p": 1.5}, "min_p"), ({"repetition_penalty": 0}, "repetition_penalty"),
                 ({"min_tokens": -1}, "min_tokens"),
                 ({"min_tokens": 20}, "min_tokens"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -1}, "max_tokens"),
                 ({"max_tokens": 1022}, "max_tokens"),
                 ({"max_tokens": 2 ** 63}, "max_tokens"), ({"logprobs": 21}, "logprobs"), ({"logprobs": -1}, "logprobs"),
                 ({"logprobs": True}, "logprobs"),
                 ({"echo": 1}, "echo"), ({"suffix": "x"}, "suffix"), ({"best_of": 2}, "best_of"), ({"n": 2, "best_of": 3}, "best_of"),
                 ({"adapter_source": "s3"}, "adapter_source"), ({"model": 3}, "model"),
                 # Honoured by other servers, but not by this one.
                 ({"guided_json": {"type": "what"}}, "guided_json"), ({"use_beam_search": True}, "use_beam_search"),
                 ({"stop_token_ids": [4096]}, "stop_token_ids")]
        for body, param in cases:
            self.refused_openai("/v1/completions", {"prompt": KING} | body, 400, "invalid_request_error", param, code=...)

    def test_models_and_adapters(self):
        for name in ["nobody", "team/nobody", "../weather", "/etc/passwd", "..", "a//b", "x" * 129, "weather/"]:
            for path, ask in [("/v1/completions", {"prompt": KING}), ("/v1/chat/completions",
                                                                      {"messages": [{"role": "user", "content": "a"}]})]:
                self.refused_openai(path, ask | {"model": name}, 404, "invalid_request_error", "model", "model_not_found")
                self.refused_openai(path, ask | {"adapter_id": name}, 404, "invalid_request_error", "adapter_id", "model_not_found")

    def test_bodies(self):
        for path in ["/v1/completions", "/v1/chat/completions"]:
            for body in ["", "{", "[]", "null", '"text"', '{"prompt": NaN}', '{"a": 1} x', b"\xff"]:
                self.refused_openai(path, body, 400, "invalid_request_error")
            answer = self.server.post(path, "{}", headers={"Content-Encoding": "gzip"})
            self.assertEqual(answer.status, 415)
            self.assertEqual(set(answer.json()["error"]), {"message", "type", "param", "code"})

    def test_routes(self):
        for method, path in [("POST", "/v1/nowhere"), ("GET", "/v1/"), ("POST", "/v1/embedding"), ("GET", "/v1"),
                             ("POST", "/v1/load_lora_adapter"),
                             ("POST", "/v1/unload_lora_adapter"), ("POST", "/v1/completions/")]:
            answer = self.server.ask(method, path, "{}")
            self.assertEqual(answer.status, 404, (method, path))
            self.assertEqual(answer.json()["error"]["type"], "not_found_error")
        for method, path in [("GET", "/v1/completions"), ("PUT", "/v1/chat/completions"), ("POST", "/v1/models"),
                             ("DELETE", "/v1/models/tales")]:
            answer = self.server.ask(method, path)
            self.assertEqual(answer.status, 405, (method, path))
            self.assertEqual(set(answer.json()["error"]), {"message", "type", "param", "code"})


class Models(OpenAiTest):
    def test_list(self):
        answer = self.server.get("/v1/models").json()
        self.assertEqual(answer["object"], "list")
        self.assertEqual([m["id"] for m in answer["data"]], ["tales"] + NAMES)
        for model in answer["data"]:
            self.assertEqual(set(model), {"id", "object", "created", "owned_by", "root", "parent", "max_model_len"})
            self.assertEqual((model["object"], model["max_model_len"], model["root"]), ("model", 1024, model["id"]))
            self.assertIsInstance(model["created"], int)
            self.assertEqual(model["parent"], None if model["id"] == "tales" else "tales")
            self.assertEqual(self.server.get("/v1/models/" + model["id"]).json(), model)

    def test_names_with_a_slash_or_percents(self):
        tales = self.server.get("/v1/models/tales").json()
        self.assertEqual(self.server.get("/v1/models/t%61les").json(), tales)
        with Server("--served-model-name", "org/tales-1") as server:
            for path in ["org/tales-1", "org%2Ftales-1"]:
                self.assertEqual(server.get("/v1/models/" + path).json()["id"], "org/tales-1", path)
            answer = server.post("/v1/completions", {"prompt": KING, "model": "org/tales-1", "max_tokens": 1})
            self.assertEqual(answer.json()["model"], "org/tales-1")
            self.assertEqual(server.post("/v1/completions", {"prompt": KING, "model": "tales", "max_tokens": 1}).status, 404)
            self.assertEqual(server.stop(), 0)

    def test_unknown(self):
        for name in ["nobody", "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "weather/..", "%00", "weather%0d%0aX-Evil:%201", "x" * 5000]:
            answer = self.server.get("/v1/models/" + name)
            self.assertIn(answer.status, [400, 404], name)
            self.assertNotIn("x-evil", answer.headers)
            self.assertIn("error", answer.json())
            if re.fullmatch("[a-z]+", name) and len(name) < 100:
                self.assertEqual(answer.json()["error"]["code"], "model_not_found")

    def test_ids_of_requests(self):
        answer = self.server.post("/v1/completions", {"prompt": KING, "max_tokens": 1}, headers={"X-Request-Id": "req-1"})
        self.assertEqual(answer.headers["x-request-id"], "req-1")
        with self.server.stream("/v1/completions", {"prompt": KING, "max_tokens": 1, "stream": True}, {"X-Request-Id": "req-2"}) as stream:
            self.assertEqual(stream.headers["x-request-id"], "req-2")
            list(stream)
        self.assertEqual(self.server.post("/v1/completions", "{", headers={"X-Request-Id": "req-3"}).headers["x-request-id"], "req-3")
        for each, status in [("req-1", 200), ("req-2", 200), ("req-3", 400)]:
            self.assertEqual(self.server.line(each)["status"], status)


def named_routes():
    """All (method, path) that the server's sources add by name, so that none is missed here."""
    sources = "".join(p.read_text() for p in (pathlib.Path(__file__).parents[2] / "apps" / "serve").rglob("*_routes.cpp"))
    routes = set(re.findall(r'(?:http\.route\(|add_plain\(http, serving, )"(\w+)", "([^"]+)"', sources))
    paths = re.findall(r'(?:add|add_writing|add_head)\(http, serving, "([^"]+)"', sources) + re.findall(r'lorax\("([^"]+)"', sources)
    for several in re.findall(r"for \(const char\* const path : \{([^}]+)\}\)", sources):
        paths += re.findall('"([^"]+)"', several)
    routes |= {("POST", path) for path in paths}
    assert len(routes) >= 25, routes
    return {(method, path.replace("(.+)", "tales")) for method, path in routes}


class Keys(ServerTest):
    FLAGS = ["--api-key", "right-key-1", "--api-key", "right-key-2", "--enable-adapter-admin"]

    def test_every_route_but_health_needs_one(self):
        open_routes = {("GET", path) for path in ["/health", "/", "/ping", "/ready", "/v1/health", "/startup", "/ui"]}
        for method, path in open_routes:
            for body in [None, "{}"]:
                self.assertEqual(self.server.ask(method, path, body).status, 200, path)
            self.assertEqual(self.server.ask(method, path, "x" * 5000).status, 413, path)
        for method, path in named_routes() - open_routes:
            for body in [None, "{}"]:  # a body: the request head must be enough
                answer = self.server.ask(method, path, body)
                self.assertEqual(answer.status, 401, path)
                self.assertIn("x-request-id", answer.headers)
                if path.startswith("/v1/messages"):
                    self.assertEqual(answer.json()["error"]["type"], "authentication_error")
                elif path.startswith("/v1"):
                    error = answer.json()["error"]
                    self.assertEqual((error["type"], error["code"]), ("authentication_error", "invalid_api_key"))
                elif path.startswith("/api"):
                    self.assertEqual(set(answer.json()), {"error"})
                else:
                    self.assertEqual(answer.json()["error_type"], "authentication", path)

    def test_a_body_without_a_key_is_not_read(self):
        with self.server.raw() as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: early\r\nContent-Length: 1000000\r\n\r\n")
            content = serving.receive_all(s)  # although no byte of the body has come
        self.assertRegex(content, b"^HTTP/1.1 401 (?s:.*)invalid_api_key")
        line = self.server.line("early")
        self.assertEqual((line["route"], line["status"], line["error"]), ("/v1/completions", 401, "authentication"))
        for method, path, error in [("GET", "/v1/models", "authentication"), ("GET", "/nothing", "not_found"), ("DELETE", "/generate", "method_not_allowed")]:
            self.server.ask(method, path, headers={"X-Request-Id": error})
            self.assertEqual(self.server.line(error)["error"], error)

    def test_keys(self):
        for headers, status in [({"Authorization": "Bearer right-key-1"}, 200), ({"X-Api-Key": "right-key-2"}, 200),
                                ({"Authorization": "bearer right-key-1"}, 200),
                                ({"Authorization": "Bearer RIGHT-KEY-1"}, 401), ({"Authorization": "Bearer right-key"}, 401),
                                ({"Authorization": "Bearer "}, 401),
                                ({"Authorization": "right-key-1"}, 401), ({"Authorization": "Basic right-key-1"}, 401),
                                ({"X-Api-Key": ""}, 401),
                                ({"X-Api-Key": "right-key-1right-key-2"}, 401), ({"Authorization": "Bearer " + "x" * 5000}, 401)]:
            answer = self.server.get("/v1/models", headers=headers)
            self.assertEqual(answer.status, status, headers)
        self.assertNotIn("right-key", self.server.text())


class Origins(ServerTest):
    FLAGS = ["--cors-origin", "https://a.example"]

    def test_pages(self):
        allowed = self.server.get("/v1/models", headers={"Origin": "https://a.example"}).headers
        self.assertEqual(allowed["access-control-allow-origin"], "https://a.example")
        self.assertNotIn("access-control-allow-credentials", allowed)
        for origin in ["https://b.example", "http://a.example", "null", "https://a.example.evil.org"]:
            self.assertNotIn("access-control-allow-origin", self.server.get("/v1/models", headers={"Origin": origin}).headers)
        self.assertEqual(self.server.ask("OPTIONS", "/v1/completions", headers={"Origin": "https://a.example"}).status, 204)

    def test_without_a_key_only_pages_of_this_machine_and_named_ones_are_served(self):
        for origin, status in [("https://a.example", 200), ("http://localhost:3000", 200), ("http://127.0.0.1", 200),
                               ("http://127.9.9.9:81", 200), ("http://[::1]", 200), ("http://[::1]:8080", 200),
                               ("https://b.example", 403), ("null", 403), ("http://localhost.b.example", 403),
                               ("http://[::2]:80", 403), ("http://[::1", 403), ("http://[]", 403), ("http://127.0.0.1.b.example", 403)]:
            self.assertEqual(self.server.get("/v1/models", headers={"Origin": origin}).status, status, origin)


if __name__ == "__main__":
    serving.main()
