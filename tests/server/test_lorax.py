"""The routes of LoRAX from a client's view: requests, answers, and that no request changes another's answer."""
import json
import os
import re
import time

import serving
from serving import NAMES, Server, ServerTest, all_at_once

KING = "The king said"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
# The parameters that lorax-client always sends.
NULLS = {"adapter_id": None, "adapter_source": None, "merged_adapters": None, "api_token": None, "do_sample": False, "max_new_tokens": 4,
         "ignore_eos_token": False, "best_of": None, "repetition_penalty": None, "return_full_text": False, "seed": None, "stop": [],
         "temperature": None, "top_k": None, "top_p": None, "truncate": None, "typical_p": None, "watermark": False,
         "response_format": None,
         "decoder_input_details": False, "return_k_alternatives": None, "details": True}


def texts(tokens):
    return [token["text"] for token in tokens]


class Answers(ServerTest):
    def test_the_least_that_can_be_asked(self):
        answer = self.server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 3}})
        self.assertEqual(list(answer.json()), ["generated_text"])
        self.assertNotIn(b"\n", answer.body)
        long = "Rain is expected in the north. " * 80  # leaves little room for the answer
        for more in [{}, {"parameters": {}}, {"parameters": None}]:
            self.assertTrue(self.server.post("/generate", {"inputs": long} | more).json()["generated_text"])

    def test_the_root_answers_with_a_list_of_one(self):
        one = self.generate(max_new_tokens=5, details=True)
        self.assertEqual(self.generate(path="/", max_new_tokens=5, details=True), [one])
        with self.server.stream("/", {"inputs": KING, "stream": True, "parameters": {"max_new_tokens": 5}}) as stream:
            self.assertEqual(stream.headers["content-type"], "text/event-stream")
            self.assertEqual(list(stream)[-1]["generated_text"], one["generated_text"])
        # The names of the other two routes decide whether they stream.
        whole = self.server.post("/generate", {"inputs": KING, "stream": False, "parameters": {"max_new_tokens": 5, "details": True}})
        self.assertEqual(whole.json(), one)
        self.refused({"inputs": KING, "stream": True}, 422, "validation", "Input validation error: `stream` true is for POST /")

    def test_null_is_absent(self):
        self.assertEqual(self.generate(**NULLS), self.generate(max_new_tokens=4, details=True))
        answer = self.server.post("/", {"inputs": KING, "stream": None, "parameters": NULLS})
        self.assertEqual(answer.json(), [self.generate(**NULLS)])
        everything = dict.fromkeys(NULLS) | {"frequency_penalty": None, "presence_penalty": None}
        self.assertIn("generated_text", self.generate("The king said. " * 150, **everything))

    def test_what_is_without_effect_is_accepted_and_what_is_unknown_refused(self):
        plain = self.generate(max_new_tokens=4)
        self.assertEqual(self.generate(max_new_tokens=4, watermark=False, api_token="hf_secret", no_such_parameter=None), plain)
        self.refused({"inputs": KING, "parameters": {"no_such_parameter": {"a": 1}}}, 422, "validation",
                     "Input validation error: `no_such_parameter` is not a field")
        self.refused({"inputs": KING, "parameters": {"watermark": True}}, 422, "validation", "Input validation error: `watermark`")
        answer = self.server.post("/generate", {"inputs": KING, "user": 3, "parameters": {"max_new_tokens": 4}},
                                  headers={"Content-Type": "text/plain"})
        self.assertEqual(answer.json(), plain)
        self.assertNotIn("hf_secret", self.server.text())

    def test_details(self):
        answer = self.generate(max_new_tokens=6, details=True)
        details = answer["details"]
        self.assertEqual(set(details), {"finish_reason", "prompt_tokens", "generated_tokens", "skipped_tokens", "seed", "prefill",
                                        "tokens"})
        self.assertEqual((details["finish_reason"], details["generated_tokens"], details["skipped_tokens"]), ("length", 6, 0))
        self.assertIsNone(details["seed"])
        self.assertEqual(details["prefill"], [])
        for token in details["tokens"]:
            self.assertEqual(set(token), {"id", "text", "logprob", "special", "skipped"})
            self.assertIsInstance(token["logprob"], float)
            self.assertLessEqual(token["logprob"], 0)
            self.assertIs(token["skipped"], False)
        self.assertEqual("".join(texts(details["tokens"])), answer["generated_text"])
        self.assertNotIn("details", self.generate(max_new_tokens=2, details=False))

    def test_prefill(self):
        tokens = self.server.post("/tokenize", {"inputs": KING}).json()
        answer = self.generate(max_new_tokens=2, decoder_input_details=True)  # implies details
        prefill = answer["details"]["prefill"]
        self.assertEqual([(t["id"], t["text"]) for t in prefill], [(t["id"], t["text"]) for t in tokens])
        self.assertEqual(len(prefill), answer["details"]["prompt_tokens"])
        self.assertIsNone(prefill[0]["logprob"])
        self.assertTrue(all(t["logprob"] < 0 for t in prefill[1:]))
        # The answer is the same if the whole prompt is in the cache, and equal to the log-probabilities of these tokens
        # in an answer.
        again = self.generate(max_new_tokens=2, decoder_input_details=True)
        self.assertEqual(again, answer)
        longer = self.generate("The king", max_new_tokens=3, decoder_input_details=True)["details"]
        grown = self.generate("The king" + longer["tokens"][0]["text"], max_new_tokens=2, decoder_input_details=True)["details"]
        self.assertEqual(grown["prefill"][-1]["logprob"], longer["tokens"][0]["logprob"])
        self.assertEqual(grown["tokens"], longer["tokens"][1:])

    def test_alternatives(self):
        plain = self.generate(max_new_tokens=4, details=True)["details"]["tokens"]
        for k in [1, 5, 20]:
            for token, alone in zip(self.generate(max_new_tokens=4, details=True, return_k_alternatives=k)["details"]["tokens"], plain):
                alternatives = token.pop("alternative_tokens")
                self.assertEqual(token, alone)
                self.assertEqual(len({a["id"] for a in alternatives}), k)
                self.assertEqual(set(alternatives[0]), {"id", "text", "logprob"})
                values = [a["logprob"] for a in alternatives]
                self.assertEqual(values, sorted(values, reverse=True))
                self.assertEqual((alternatives[0]["id"], values[0]), (token["id"], token["logprob"]))  # the answer is greedy
        streamed = self.generate_stream(max_new_tokens=4, return_k_alternatives=3)
        self.assertTrue(all(len(event["token"]["alternative_tokens"]) == 3 for event in streamed))

    def test_return_full_text(self):
        text = self.generate(max_new_tokens=4)["generated_text"]
        self.assertEqual(self.generate(max_new_tokens=4, return_full_text=True)["generated_text"], KING + text)
        last = self.generate_stream(max_new_tokens=4, return_full_text=True)[-1]
        self.assertEqual(last["generated_text"], KING + text)

    def test_truncate_keeps_the_end(self):
        long = "Rain and wind and snow were all that there was. " + KING
        short = self.generate(max_new_tokens=6, details=True, decoder_input_details=True)
        cut = self.generate(long, max_new_tokens=6, details=True, decoder_input_details=True, truncate=2)
        self.assertEqual(texts(cut["details"]["prefill"]), [" king", " said"])
        self.assertEqual(self.generate(long, max_new_tokens=6, truncate=768), self.generate(long, max_new_tokens=6))
        whole = self.generate(max_new_tokens=6, details=True, decoder_input_details=True, truncate=3)
        self.assertEqual(whole, short)
        # A prompt that is too long is accepted once it is truncated.
        self.assertEqual(self.generate("word " * 2000, max_new_tokens=2, details=True, truncate=700)["details"]["prompt_tokens"], 700)

    def test_the_end_of_text_is_counted_and_not_in_the_text(self):
        asked = dict(max_new_tokens=400, details=True, adapter_id="weather")
        answer = self.generate("The end", **asked)
        details = answer["details"]
        self.assertEqual(details["finish_reason"], "eos_token")
        end = details["tokens"][-1]
        self.assertEqual((end["id"], end["special"], end["text"]), (4095, True, "<|endoftext|>"))
        self.assertEqual(details["generated_tokens"], len(details["tokens"]))
        self.assertEqual(answer["generated_text"], "".join(t["text"] for t in details["tokens"] if not t["special"]))
        streamed = self.generate_stream("The end", **asked)
        self.assertEqual([e["token"] for e in streamed], details["tokens"])
        self.assertEqual(streamed[-1]["generated_text"], answer["generated_text"])
        # If max_new_tokens is exactly that length, the finish reason is the length.
        n = details["generated_tokens"]
        self.assertEqual(self.generate("The end", **asked | {"max_new_tokens": n})["details"]["finish_reason"], "length")
        self.assertEqual(self.generate("The end", **asked | {"max_new_tokens": n + 1})["details"]["finish_reason"], "eos_token")
        on = self.generate("The end", **asked | {"ignore_eos_token": True, "max_new_tokens": n + 20})["details"]
        self.assertEqual((on["finish_reason"], on["generated_tokens"]), ("length", n + 20))
        self.assertEqual(on["tokens"][:n - 1], details["tokens"][:-1])


class Stops(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        answer = cls.server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 24, "details": True}}).json()
        cls.text, cls.tokens = answer["generated_text"], answer["details"]["tokens"]

    def stopped(self, *stop, **more):
        asked = dict(max_new_tokens=24, details=True, stop=list(stop)) | more
        answer = self.generate(**asked)
        last = self.generate_stream(**asked)[-1]
        self.assertEqual(last["generated_text"], answer["generated_text"])
        for key in ["finish_reason", "generated_tokens", "prompt_tokens", "seed"]:
            self.assertEqual(last["details"][key], answer["details"][key])
        return answer["generated_text"], answer["details"]

    def test_it_stays_in_the_text_at_its_end(self):
        words = texts(self.tokens)
        for n in [1, 4, 9]:
            stop = "".join(words[n - 1:n + 1])  # across a token boundary
            first = next(k for k in range(1, 25) if "".join(words[:k]).endswith(stop))
            text, details = self.stopped(stop)
            self.assertEqual(text, "".join(words[:first]))
            self.assertTrue(text.endswith(stop))
            self.assertEqual((details["finish_reason"], details["generated_tokens"]), ("stop_sequence", first))
            self.assertEqual(details["tokens"], self.tokens[:first])

    def test_it_stops_only_at_the_end_of_the_text_so_far(self):
        word = next(t for t in texts(self.tokens) if len(t.strip()) > 3)
        within = word.strip()[:2]  # in the middle of a token
        if any("".join(texts(self.tokens)[:k]).endswith(within) for k in range(1, 25)):
            self.skipTest("the model says " + within + " at the end of a token")
        text, details = self.stopped(within)
        self.assertEqual((text, details["finish_reason"]), (self.text, "length"))

    def test_the_first_of_several(self):
        words = texts(self.tokens)
        text, details = self.stopped("never said", words[12], words[3], words[7])
        first = next(k for k in range(1, 25) if "".join(words[:k]).endswith((words[12], words[3], words[7])))
        self.assertEqual((text, details["generated_tokens"]), ("".join(words[:first]), first))

    def test_the_length_goes_before_it(self):
        words = texts(self.tokens)
        first = next(k for k in range(1, 25) if "".join(words[:k]).endswith(words[3]))
        self.assertEqual(self.stopped(words[3], max_new_tokens=first)[1]["finish_reason"], "length")
        self.assertEqual(self.stopped(words[3], max_new_tokens=first + 1)[1]["finish_reason"], "stop_sequence")

    def test_it_is_not_looked_for_in_the_prompt(self):
        text, details = self.stopped("said")
        self.assertNotIn("said", text[:-4])
        full = self.generate(max_new_tokens=24, stop=["said"], return_full_text=True)["generated_text"]
        self.assertEqual(full, KING + text)

    def test_how_many(self):
        self.stopped(*("no %d" % i for i in range(10)))
        self.refused({"inputs": KING, "parameters": {"stop": ["no %d" % i for i in range(11)]}}, 422, "validation",
                     "Input validation error: `stop` supports up to 10 stop sequences. Given: 11")
        self.refused({"inputs": KING, "parameters": {"stop": ["a", ""]}}, 422, "validation", "Input validation error: ")
        self.refused({"inputs": KING, "parameters": {"stop": "a"}}, 422, "validation", "Input validation error: ")


class Sampling(ServerTest):
    def seed(self, **parameters):
        return self.generate(max_new_tokens=4, details=True, **parameters)["details"]["seed"]

    def test_when_it_samples(self):
        for parameters in [{}, {"temperature": 1.0}, {"temperature": 0}, {"top_p": 1.0}, {"seed": 3}, {"temperature": 0, "do_sample": True},
                           {"temperature": 0, "top_k": 5}, {"repetition_penalty": 1.3}, {"frequency_penalty": 0.5}]:
            self.assertIsNone(self.seed(**parameters), parameters)
        for parameters in [{"do_sample": True}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.5}, {"typical_p": 0.5}]:
            used = self.seed(**parameters)
            self.assertIsInstance(used, int, parameters)
            self.assertNotEqual(used, self.seed(**parameters), parameters)
            self.assertEqual(self.seed(seed=7, **parameters), 7, parameters)

    def test_the_seed_it_says_gives_the_same_again(self):
        asked = dict(max_new_tokens=24, details=True, temperature=1.2)
        first = self.generate(**asked)
        self.assertEqual(self.generate(seed=first["details"]["seed"], **asked), first)
        streamed = self.generate_stream(seed=first["details"]["seed"], **asked)
        self.assertEqual([e["token"] for e in streamed], first["details"]["tokens"])
        self.assertEqual(streamed[-1]["details"]["seed"], first["details"]["seed"])
        self.assertNotEqual(self.generate(seed=first["details"]["seed"] ^ 1, **asked)["generated_text"], first["generated_text"])

    def test_seeds_of_64_bits(self):
        top = 2 ** 64 - 1
        self.assertEqual(self.seed(do_sample=True, seed=top), top)
        self.assertEqual(self.seed(do_sample=True, seed=top - 1), top - 1)
        self.assertEqual(self.seed(do_sample=True, seed=0), 0)
        text = [self.generate(max_new_tokens=24, do_sample=True, seed=s)["generated_text"] for s in [2 ** 63, 2 ** 63 + 1]]
        self.assertNotEqual(*text)  # seeds are not converted to double

    def test_logprobs_are_of_the_plain_model(self):
        plain = self.generate(max_new_tokens=1, details=True, return_k_alternatives=20)["details"]["tokens"][0]
        known = {a["id"]: a["logprob"] for a in plain["alternative_tokens"]}
        for more in [{"temperature": 0.3, "seed": 1}, {"top_k": 2, "seed": 1}, {"repetition_penalty": 2.0}]:
            token = self.generate(max_new_tokens=1, details=True, **more)["details"]["tokens"][0]
            if token["id"] in known:
                self.assertEqual(token["logprob"], known[token["id"]], more)

    def test_penalties_change_the_text(self):
        plain = self.generate(max_new_tokens=60)
        for more in [{"repetition_penalty": 1.5}, {"frequency_penalty": 2}, {"presence_penalty": 2}]:
            self.assertNotEqual(self.generate(max_new_tokens=60, **more), plain, more)

    def test_best_of(self):
        details = self.generate(max_new_tokens=8, best_of=2, do_sample=True, details=True)["details"]
        other, = details["best_of_sequences"]
        self.assertEqual(set(other), {"generated_text", "finish_reason", "generated_tokens", "seed", "prefill", "tokens"})

        def mean(sequence):
            return sum(t["logprob"] for t in sequence["tokens"]) / len(sequence["tokens"])

        self.assertGreaterEqual(mean(details), mean(other))
        self.assertNotEqual(details["seed"], other["seed"])
        for sequence in [details, other]:  # each sequence is the answer to its seed alone
            alone = self.generate(max_new_tokens=8, do_sample=True, seed=sequence["seed"], details=True)
            self.assertEqual(alone["details"]["tokens"], sequence["tokens"])
        self.assertNotIn("best_of_sequences", self.generate(max_new_tokens=2, best_of=1, details=True)["details"])


class Headers(ServerTest):
    TIMES = ["x-compute-time", "x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token",
             "x-time-to-first-token", "x-time-per-output-token"]

    def test_of_a_whole_answer(self):
        bodies = [("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 5, "adapter_id": "weather"}}),
                  ("/", {"inputs": KING, "parameters": {"max_new_tokens": 5, "adapter_id": "weather"}}),
                  ("/v1/completions", {"prompt": KING, "max_tokens": 5, "model": "weather", "temperature": 0})]
        for path, body in bodies:
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 200, answer)
            head = answer.headers
            self.assertEqual(head["content-type"], "application/json")
            for name in self.TIMES:
                self.assertRegex(head[name], r"^\d+$", name)
            self.assertEqual([head[k] for k in ["x-prompt-tokens", "x-generated-tokens", "x-skipped-tokens", "x-total-tokens"]],
                             ["3", "5", "0", "8"])
            self.assertEqual((head["x-compute-type"], head["x-compute-characters"]), ("cpu", "13"))
            self.assertEqual((head["x-model-id"], head["x-adapter-id"], head["x-adapter-source"]), ("tales", "weather", "local"))
        base = self.server.post("/generate", {"inputs": KING, "parameters": {"max_new_tokens": 1}})  # one token: no division by zero
        self.assertFalse({"x-adapter-id", "x-adapter-source"} & set(base.headers))

    def test_of_a_stream(self):
        with self.server.stream("/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 2,
                                                                                    "adapter_id": "weather"}}) as stream:
            head = stream.headers
            list(stream)
        for name, value in {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no",
                            "transfer-encoding": "chunked", "x-compute-type": "cpu", "x-compute-characters": "13", "x-model-id": "tales",
                            "x-adapter-id": "weather", "x-adapter-source": "local"}.items():
            self.assertEqual(head[name], value)
        self.assertNotIn("content-length", head)

    def test_characters_are_no_bytes(self):
        answer = self.server.post("/generate", {"inputs": "H\u00e9llo \U0001f600", "parameters": {"max_new_tokens": 1}})
        self.assertEqual(answer.headers["x-compute-characters"], "7")

    def test_request_ids(self):
        asked = {"inputs": KING, "parameters": {"max_new_tokens": 1}}
        for given in ["my-id.1", "x" * 128, "!~"]:
            answer = self.server.post("/generate", asked, headers={"X-Request-Id": given})
            self.assertEqual(answer.headers["x-request-id"], given)
            self.assertEqual(self.server.line(given)["status"], 200)
        made = set()
        for given in ["x" * 129, "a\x01b", "caf\u00e9", ""]:
            made.add(self.server.post("/generate", asked, headers={"X-Request-Id": given.encode("utf-8")}).headers["x-request-id"])
        self.assertEqual(len(made), 4)
        self.assertTrue(all(re.fullmatch(r"[!-~]{8,128}", each) for each in made), made)
        for answer in [self.server.get("/nowhere"), self.server.get("/health"), self.server.post("/generate", "{"),
                       self.server.get("/generate")]:
            self.assertIn("x-request-id", answer.headers)


class Framing(ServerTest):
    def raw_stream(self, body, server=None):
        """The head and the chunks of a stream, unchanged."""
        with (server or self.server).raw() as s:
            s.sendall(serving.post_bytes("/generate_stream", json.dumps(body).encode(), "Connection: close"))
            content = serving.receive_all(s)
        head, rest = content.split(b"\r\n\r\n", 1)
        chunks = []
        while True:
            size, rest = rest.split(b"\r\n", 1)
            length = int(size, 16)
            chunk, rest = rest[:length], rest[length:]
            self.assertEqual(len(chunk), length)
            self.assertTrue(rest.startswith(b"\r\n"))
            rest = rest[2:]
            if length == 0:
                self.assertEqual(rest, b"")
                return head, chunks
            chunks.append(chunk)

    def test_byte_by_byte(self):
        asked = {"max_new_tokens": 5, "details": True}
        head, chunks = self.raw_stream({"inputs": KING, "parameters": asked})
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "))
        stream = b"".join(chunks)
        self.assertNotIn(b"\r", stream)
        self.assertNotIn(b"DONE", stream)
        for chunk in chunks:  # a client that reads by chunks gets whole events
            self.assertTrue(chunk.endswith(b"\n\n"), chunk)
        events = stream.split(b"\n\n")
        self.assertEqual(events.pop(), b"")
        self.assertEqual(len(events), 5)
        tokens = self.generate(**asked)["details"]["tokens"]
        for i, event in enumerate(events):
            said = json.loads(serving.data_of(event))
            self.assertEqual(list(said), ["token", "generated_text", "details"])
            self.assertEqual(said["token"], tokens[i])
            if i < 4:
                self.assertEqual((said["generated_text"], said["details"]), (None, None))
        self.assertEqual(said["generated_text"], "".join(texts(tokens)))
        self.assertEqual(said["details"], {"finish_reason": "length", "prompt_tokens": 3, "input_length": 3, "generated_tokens": 5,
                                           "seed": None})

    def test_tokens_that_come_within_the_interval_share_a_write(self):
        asked = {"inputs": KING, "parameters": {"max_new_tokens": 200, "details": True, "ignore_eos_token": True}}
        interval = 0.05
        with Server("--stream-interval", interval) as server:
            begin = time.monotonic()
            _, chunks = self.raw_stream(asked, server)
            took = time.monotonic() - begin
        # The first token and the end are sent at once. Between them there is one event per interval, at most t + 1 in a
        # time of t intervals.
        self.assertLessEqual(len(chunks), took / interval + 3)
        _, own = self.raw_stream(asked)
        self.assertEqual(b"".join(chunks), b"".join(own))

    def test_details_only_where_asked(self):
        last = self.generate_stream(max_new_tokens=2)[-1]
        self.assertIsNone(last["details"])
        self.assertIsInstance(last["generated_text"], str)

    def test_characters_that_are_several_tokens(self):
        word = "h\u00e9\U0001f600\u6f22\u2028x"
        asked = dict(max_new_tokens=80, response_format={"type": "json_object", "schema": {"const": word}}, details=True)
        answer = self.generate(**asked)
        self.assertEqual(json.loads(answer["generated_text"]), word)
        streamed = self.generate_stream(**asked)
        self.assertEqual([e["token"] for e in streamed], answer["details"]["tokens"])
        shown = "".join(e["token"]["text"] for e in streamed if not e["token"]["special"])
        self.assertEqual(shown, answer["generated_text"])
        self.assertNotIn("\ufffd", shown)
        self.assertGreater(len(streamed), 8)

    def test_an_error_before_the_first_token_has_its_status(self):
        for body, status in [({"inputs": KING, "parameters": {"adapter_id": "nobody"}}, 424), ({"inputs": ""}, 422), ("{", 400)]:
            with self.server.stream("/generate_stream", body) as stream:
                self.assertEqual(stream.status, status)
                self.assertEqual(stream.headers["content-type"], "application/json")

    def test_the_first_token_does_not_wait_for_the_last(self):
        with self.server.stream("/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 1000,
                                                                                    "ignore_eos_token": True}}) as stream:
            next(stream)
            running = self.server.metric("vllm:num_requests_running")
            self.assertEqual(len(list(stream)), 999)
        self.assertEqual(running, 1)


class Refusals(ServerTest):
    PREFIX = "Input validation error: "

    def test_parameters(self):
        cases = [
            ({"max_new_tokens": 0}, "`max_new_tokens` must be strictly positive"),
            ({"max_new_tokens": -1}, "`max_new_tokens`"),
            ({"max_new_tokens": 1022},
             "`inputs` tokens + `max_new_tokens` must be <= 1024. Given: 3 `inputs` tokens and 1022 `max_new_tokens`"),
            ({"max_new_tokens": 2 ** 32 - 1}, "`inputs` tokens + `max_new_tokens` must be <= 1024. Given: 3 `inputs` tokens"),
            ({"max_new_tokens": 2 ** 32}, "`max_new_tokens`"),
            ({"max_new_tokens": 2 ** 64}, "`max_new_tokens`"),
            ({"max_new_tokens": 1.5}, "`max_new_tokens`"),
            ({"max_new_tokens": True}, "`max_new_tokens`"),
            ({"max_new_tokens": "4"}, "`max_new_tokens`"),
            ({"temperature": -0.1}, "`temperature` must be non-negative"),
            ({"temperature": "hot"}, "`temperature`"),
            ({"temperature": True}, "`temperature`"),
            ({"temperature": 1e39}, "`temperature`"),
            ({"top_k": 0}, "`top_k`"),
            ({"top_k": -1}, "`top_k`"),
            ({"top_p": 0}, "`top_p`"),
            ({"top_p": 1.01}, "`top_p`"),
            ({"typical_p": 0}, "`typical_p`"),
            ({"typical_p": 1.0}, "`typical_p`"),
            ({"repetition_penalty": 0}, "`repetition_penalty`"),
            ({"repetition_penalty": -2}, "`repetition_penalty`"),
            ({"frequency_penalty": 2.1}, "`frequency_penalty`"),
            ({"presence_penalty": -2.1}, "`presence_penalty`"),
            ({"seed": -2}, "`seed`"),
            ({"seed": 2 ** 64}, "`seed`"),
            ({"seed": 1.0}, "`seed`"),
            ({"seed": "7"}, "`seed`"),
            ({"do_sample": 1}, "`do_sample`"),
            ({"details": "yes"}, "`details`"),
            ({"best_of": 0}, "`best_of`"),
            ({"best_of": 3, "do_sample": True}, "`best_of`"),
            ({"best_of": 2}, "`best_of`"),
            ({"best_of": 2, "do_sample": True, "seed": 1}, "`seed` must not be set when `best_of` > 1"),
            ({"truncate": 0}, "`truncate`"),
            ({"truncate": 1024}, "`truncate`"),
            ({"return_k_alternatives": 0}, "`return_k_alternatives`"),
            ({"return_k_alternatives": 21}, "`return_k_alternatives`"),
            ({"adapter_source": "pbase", "adapter_id": "weather"}, "`adapter_source=pbase` is not supported"),
            ({"adapter_source": "s3"}, "`adapter_source=s3` is not supported"),
            ({"adapter_id": 3}, "`adapter_id`"),
            ({"stop": [1]}, "`stop`"),
            ({"response_format": {"type": "yaml"}}, "`response_format`"),
            ({"response_format": {"strict": True}}, "`response_format`"),
            ({"response_format": "json"}, "`response_format`"),
            ({"grammar": {"type": "lark", "value": "a"}}, "`grammar`"),
            ({"no_repeat_ngram_size": 2}, "`no_repeat_ngram_size` is not supported"),  # honoured by other servers
        ]
        for parameters, message in cases:
            body = {"inputs": KING, "parameters": parameters}
            self.refused(body, 422, "validation", self.PREFIX + message)
            self.refused(body, 422, "validation", self.PREFIX + message, path="/generate_stream")

    def test_of_streams_alone(self):
        self.refused({"inputs": KING, "parameters": {"decoder_input_details": True}}, 422, "validation",
                     self.PREFIX + "`decoder_input_details` == true is not supported when streaming tokens", path="/generate_stream")
        self.refused({"inputs": KING, "stream": True, "parameters": {"best_of": 2, "do_sample": True}}, 422, "validation",
                     self.PREFIX + "`best_of`", path="/")

    def test_inputs(self):
        for body in [{}, {"inputs": None}, {"inputs": ""}, {"inputs": 3}, {"inputs": ["a"]}, {"inputs": KING, "parameters": []},
                     {"inputs": KING, "parameters": "x"}, {"inputs": "word " * 1100}, {"inputs": "a\0b"}]:
            self.refused(body, 422, "validation", self.PREFIX)
        self.refused({"inputs": KING, "stream": "yes"}, 422, "validation", self.PREFIX, path="/")

    def test_bodies(self):
        for body in ["", "{", "nothing", "[]", '"text"', "null", '{"inputs": "a"} {}', '{"inputs": NaN}', b"\xff\xfe",
                     b'{"inputs": "\xc3("}']:
            answer = self.server.post("/generate", body)
            self.assertIn(answer.status, [400, 422] if body[:1] == b"\xff" else [400, 422] if isinstance(body, bytes) else [400], body)
            self.assertEqual(answer.json()["error_type"], "validation")

    def test_media(self):
        good = json.dumps({"inputs": KING, "parameters": {"max_new_tokens": 1}})
        for headers, status in [({"Content-Encoding": "gzip"}, 415), ({"Content-Encoding": "identity"}, 200),
                                ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
                                ({"Content-Type": "application/x-www-form-urlencoded"}, 200)]:
            answer = self.server.post("/generate", good, headers=headers)
            self.assertEqual(answer.status, status, (headers, answer))
            self.assertEqual(answer.headers["content-type"], "application/json")

    def test_routes(self):
        for path in ["/nowhere", "/generate/", "/generate/x", "/embeds", "/classify/", "/GENERATE"]:
            answer = self.server.post(path, {})
            self.assertEqual((answer.status, answer.json()["error_type"]), (404, "not_found"), path)
        for method, path in [("GET", "/generate"), ("GET", "/generate_stream"), ("PUT", "/generate"), ("DELETE", "/info"),
                             ("POST", "/health"),
                             ("PATCH", "/"), ("GET", "/tokenize"), ("POST", "/metrics")]:
            answer = self.server.ask(method, path)
            self.assertEqual(answer.status, 405, (method, path))
            self.assertEqual(set(answer.json()), {"error", "error_type"})
        self.assertEqual(self.server.post("/lora-adapters", []).status, 501)

    def test_nothing_tells_where_files_are(self):
        here = [str(serving.ROOT), os.path.dirname(serving.PROGRAM), "/adapters"]
        answers = [self.server.get(path) for path in ["/info", "/v1/models", "/lora-adapters", "/metrics", "/v1/models/..%2f..%2fetc"]]
        answers += [self.server.post("/generate", {"inputs": KING, "parameters": {"adapter_id": name}}) for name in ["nobody", "../x",
                                                                                                                     "/etc/passwd"]]
        for answer in answers:
            for path in here:
                self.assertNotIn(path, answer.text())


class Formats(ServerTest):
    def test_the_answer_fits_the_schema(self):
        for more in [{}, {"do_sample": True, "seed": 5}, {"adapter_id": "characters"}, {"temperature": 1.5, "seed": 2}]:
            for kind in ["json_object", "json_schema"]:
                answer = self.generate("A name:", max_new_tokens=100, details=True, response_format={"type": kind, "schema": SCHEMA},
                                       **more)
                self.assertIn(answer["details"]["finish_reason"], ["eos_token"])
                said = json.loads(answer["generated_text"])
                self.assertEqual(set(said), {"name", "age"})
                self.assertTrue(len(said["name"]) <= 12 and 0 <= said["age"] <= 99)

    def test_streamed(self):
        asked = dict(max_new_tokens=100, response_format={"type": "json_object", "schema": SCHEMA})
        self.assertEqual(self.generate_stream(**asked)[-1]["generated_text"], self.generate(**asked)["generated_text"])

    def test_any_object_or_any_text(self):
        self.assertTrue(self.generate(max_new_tokens=8, response_format={"type": "json_object"})["generated_text"].startswith("{"))
        self.assertEqual(self.generate(max_new_tokens=8, response_format={"type": "text"}), self.generate(max_new_tokens=8))

    def test_what_is_not_supported_is_refused_before_generation(self):
        before = self.server.wait_quiet()["tenon_tokens_total"]
        schemas = [{"$ref": "http://example.org/x"}, {"type": "string", "pattern": "(a)\\1"}, {"type": "no-such-type"},
                   {"type": "string", "pattern": "("}, 7, [], "object"]
        for schema in schemas:
            for path in ["/generate", "/generate_stream"]:
                self.refused({"inputs": KING, "parameters": {"response_format": {"type": "json_object", "schema": schema}}}, 422,
                             "validation",
                             "Input validation error: `response_format`", path=path)
        self.assertEqual(self.server.wait_quiet()["tenon_tokens_total"], before)


class Adapters(ServerTest):
    def test_each_gives_another_text(self):
        found = [self.generate(max_new_tokens=16, adapter_id=name, adapter_source="local")["generated_text"] for name in NAMES]
        found.append(self.generate(max_new_tokens=16)["generated_text"])
        self.assertEqual(len(set(found)), 4)

    def test_names_of_the_base_model(self):
        base = self.generate(max_new_tokens=8)
        for name in [None, "", "__base_model__", "tales"]:
            self.assertEqual(self.generate(max_new_tokens=8, adapter_id=name), base)

    def test_unknown(self):
        for name in ["nobody", "team/nobody", "weather.old", "W" * 128]:
            body = {"inputs": KING, "parameters": {"adapter_id": name}}
            for path in ["/generate", "/generate_stream"]:
                answer = self.refused(body, 424, "generation", "Request failed during generation: ", path=path)
                self.assertIn("`%s`" % name, answer.json()["error"])

    def test_names_that_are_none(self):
        for name in ["../weather", "weather/..", "..", ".", "/etc/passwd", "a/../../b", "a//b", "a/b/c", "weather/", "/weather", "~/x",
                     "C:\\x",
                     "weather\n", "w\u00e9", "x" * 129, "x" * 5000, "%2e%2e/x", "-x", ".x", "a b", "weather\0"]:
            self.refused({"inputs": KING, "parameters": {"adapter_id": name}}, 422, "validation", "Input validation error: ")

    def test_merged(self):
        def merged(ids, weights, **more):
            return self.generate(max_new_tokens=12, details=True, merged_adapters={"ids": ids, "weights": weights, "density": 0.0} | more)

        answer = merged(["weather", "shakespeare"], [0.5, 0.5], merge_strategy="linear", majority_sign_method="total")
        self.assertEqual(merged(["weather", "shakespeare"], [0.5, 0.5]), answer)
        self.assertEqual(merged(["weather"], [1.0]), self.generate(max_new_tokens=12, details=True, adapter_id="weather"))
        self.assertEqual(merged(["weather"], [0])["generated_text"], self.generate(max_new_tokens=12)["generated_text"])
        self.assertNotEqual(merged(["weather", "shakespeare"], [0.9, 0.1]), answer)
        self.assertNotEqual(merged(["weather"], [0.5])["details"]["tokens"][0]["logprob"],
                            merged(["weather"], [1])["details"]["tokens"][0]["logprob"])

    def test_merged_and_refused(self):
        both = ["weather", "shakespeare"]
        cases = [{"ids": [], "weights": []}, {"ids": both, "weights": [1]}, {"ids": both}, {"ids": both, "weights": "x"},
                 {"ids": both, "weights": [1, None]}, {"ids": both, "weights": [1, 1e39]}, {"ids": ["../x"], "weights": [1]}, [], 3,
                 {"ids": both, "weights": [1, 1], "merge_strategy": "no-such"}]
        cases += [{"ids": both, "weights": [1, 1], "merge_strategy": s, "density": 0.5} for s in ["ties", "dare_linear", "dare_ties"]]
        for case in cases:
            self.refused({"inputs": KING, "parameters": {"merged_adapters": case}}, 422, "validation", "Input validation error: ")
        self.refused({"inputs": KING, "parameters": {"adapter_id": "weather", "merged_adapters": {"ids": both, "weights": [1, 1]}}}, 422,
                     "validation", "Input validation error: at most one of `adapter_id` or `adapters` may be provided")
        self.refused({"inputs": KING, "parameters": {"merged_adapters": {"ids": ["weather", "nobody"], "weights": [1, 1]}}}, 424,
                     "generation", "Request failed during generation: ")


class Facts(ServerTest):
    def test_tokenize(self):
        for text in [KING, "H\u00e9llo  you \U0001f600!", " x\n\ny", "<|endoftext|>", "a <|endoftext|>b"]:
            tokens = self.server.post("/tokenize", {"inputs": text}).json()
            self.assertTrue(all(set(t) == {"id", "text", "start", "stop"} for t in tokens))
            self.assertEqual(tokens[0]["start"], 0)
            for one, next_one in zip(tokens, tokens[1:]):
                self.assertEqual(one["stop"], next_one["start"])
            self.assertEqual("".join(texts(tokens)), text)
            self.assertEqual(tokens[-1]["stop"], len(text))
            for t in tokens:
                self.assertEqual(text[t["start"]:t["stop"]], t["text"])
        # report: prompt_special_tokens_are_text
        self.assertEqual([t["id"] for t in self.server.post("/tokenize", {"inputs": "<|endoftext|>"}).json()], [4095])
        self.assertEqual(self.server.post("/tokenize", {"inputs": KING, "add_special_tokens": False}).json(),
                         self.server.post("/tokenize", {"inputs": KING}).json())  # this model adds no special tokens
        for body in [{}, {"inputs": ""}, {"inputs": 3}]:
            self.refused(body, 422, "validation", "Input validation error: ", path="/tokenize")

    def test_info(self):
        info = self.server.get("/info").json()
        self.assertEqual(set(info), {"model_id", "model_sha", "model_dtype", "model_device_type", "model_pipeline_tag",
                                     "max_concurrent_requests",
                                     "max_best_of", "max_stop_sequences", "max_input_length", "max_total_tokens", "waiting_served_ratio",
                                     "max_batch_total_tokens", "max_waiting_tokens", "validation_workers", "eager_prefill", "version",
                                     "sha",
                                     "docker_label", "request_logger_url"})
        self.assertEqual((info["model_id"], info["max_total_tokens"], info["max_input_length"]), ("tales", 1024, 1023))
        self.assertEqual((info["max_best_of"], info["max_stop_sequences"], info["model_device_type"]), (2, 10, "cpu"))

    def test_adapters_in_memory(self):
        self.generate(max_new_tokens=1, adapter_id="weather")
        adapters = self.server.get("/lora-adapters").json()
        self.assertIn("weather", [a["path"] for a in adapters])
        self.assertEqual([a["id"] for a in adapters], list(range(len(adapters))))
        self.assertTrue(all(set(a) == {"id", "path", "scale"} and a["scale"] == 1.0 for a in adapters))


def mixed_requests():
    """16 requests of all kinds: each adapter, two adapters, none; greedy and sampled; short and long; on all routes."""
    story = "Once upon a time there was a king who lived by the sea, and he said to his people: "
    sets = [{}, *({"adapter_id": name} for name in NAMES),
            {"merged_adapters": {"ids": ["weather", "shakespeare"], "weights": [0.7, 0.4], "merge_strategy": "linear"}}]
    kinds = [{}, {"do_sample": True, "seed": 11}, {"temperature": 1.4, "top_k": 50, "seed": 2 ** 64 - 1},
             {"top_p": 0.8, "repetition_penalty": 1.2, "seed": 3},
             {"response_format": {"type": "json_object", "schema": SCHEMA}}, {"stop": [".", " the"]}]
    requests = []
    for i in range(12):
        parameters = {"max_new_tokens": [48, 9, 90, 33][i % 4], "details": True, "return_k_alternatives": 1 + i % 3,
                      "decoder_input_details": True} | sets[i % 5] | kinds[i % 6]
        inputs = [KING, story * (1 + i % 5), "Rain", "%d. Tomorrow" % i][i % 4]
        requests.append(("/generate", {"inputs": inputs, "parameters": parameters}))
    for i in range(4):
        more = [{"temperature": 0}, {"seed": 9, "n": 2}, {"temperature": 0.8, "seed": 4}, {"temperature": 0, "stop": "\n"}][i]
        requests.append(("/v1/completions", {"model": (NAMES + [""])[i], "prompt": [KING, [story, "Rain"], [503, 1255], story * 3][i],
                                             "max_tokens": 40 + i,
                                             "logprobs": i} | more))
    return requests


def essence(answer):
    """The parts of an answer that are the same every time."""
    if isinstance(answer, dict) and "choices" in answer:
        return {"choices": answer["choices"], "usage": answer["usage"]}
    return answer


class Promise(ServerTest):
    """The answer to a request is the same bit for bit, including log-probabilities, whatever other requests are served."""

    FLAGS = ["--preload-adapters", ",".join(NAMES)]

    def ask_all(self, server, requests):
        def one(path, body):
            def work():
                answer = server.post(path, body)
                self.assertEqual(answer.status, 200, answer)
                return essence(answer.json())
            return work
        return all_at_once([one(path, body) for path, body in requests])

    def crowd(self, server, requests, alone):
        before = server.wait_quiet()
        together = self.ask_all(server, requests)
        after = server.wait_quiet()
        for (path, body), one, other in zip(requests, alone, together):
            self.assertEqual(other, one, (path, body))
        steps, sequences = (after["lorax_batch_next_size_" + k] - before["lorax_batch_next_size_" + k] for k in ["count", "sum"])
        return sequences / steps

    def test_alone_and_in_a_crowd(self):
        requests = mixed_requests()
        self.assertEqual(len(requests), 16)
        alone = [self.ask_all(self.server, [request])[0] for request in requests]
        self.assertEqual(len({json.dumps(a) for a in alone}), 16)
        sizes = [self.crowd(self.server, requests, alone) for _ in range(3)]
        self.assertGreater(max(sizes), 2, "that was no crowd")
        self.crowd(self.server, requests[::-1], alone[::-1])
        # Another server gets all requests at once, with adapters not yet in memory and tight limits.
        rooms = [["--batch", 3, "--token-budget", 24, "--threads", 2], ["--cache-tokens", 256, "--no-prefix-reuse", "--adapter-slots", 2]]
        for flags in rooms:
            with Server(*flags) as other:
                self.crowd(other, requests, alone)
                self.crowd(other, requests, alone)
                preempted = other.metric("tenon_preemptions_total")
                self.assertEqual(other.stop(), 0)
        self.assertGreater(preempted, 0, "there was room for all")

    def test_streams_in_a_crowd(self):
        requests = []
        for path, body in mixed_requests()[:12]:
            parameters = {k: v for k, v in body["parameters"].items() if k != "decoder_input_details"}
            requests.append({"inputs": body["inputs"], "parameters": parameters})
        alone = [self.server.post("/generate", body).json() for body in requests]

        def streamed(body):
            def work():
                with self.server.stream("/generate_stream", body) as stream:
                    return list(stream)
            return work

        for body, one, events in zip(requests, alone, all_at_once([streamed(body) for body in requests])):
            self.assertEqual([e["token"] for e in events], one["details"]["tokens"], body)
            self.assertEqual(events[-1]["generated_text"], one["generated_text"], body)

    def test_clients_that_leave_change_nothing(self):
        requests = mixed_requests()[:6]
        alone = [self.ask_all(self.server, [request])[0] for request in requests]

        def leave(i):
            def work():
                with self.server.stream("/generate_stream", {"inputs": KING, "parameters": {
                        "max_new_tokens": 500, "ignore_eos_token": True, "do_sample": True, "seed": i}}) as stream:
                    for _ in range(i):
                        next(stream)
            return work

        def answer(path, body):
            return lambda: essence(self.server.post(path, body).json())

        results = all_at_once([leave(i) for i in range(6)] + [answer(*request) for request in requests])
        self.assertEqual(results[6:], alone)
        self.server.wait_quiet()


if __name__ == "__main__":
    serving.main()
