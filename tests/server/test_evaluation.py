"""Log-likelihoods, as evaluation harnesses ask for them: /v1/completions with `echo`, `logprobs` and one new token.

Every comparison is of whole JSON values with ==. A prompt's numbers must not depend on the other prompts of its request,
on other requests, on adapters that run beside it, on its form (text or ids), on the prefix cache, or on streaming.
"""
import math
import random

import serving
from serving import ServerTest

EOS = 4095
LISTS = ["tokens", "token_logprobs", "top_logprobs", "text_offset"]
# The fields that lm-eval's local-completions sends beside the prompt.
SCORING = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
WORDS = ["The king said", " that the old", " house", " by the river", " was", " full of", " mice", ".\n", " caf\u00e9", " \u201cNo,\u201d", " \u6cb3\u6c34",
         " \U0001f600", "  ", " 1904", " and then", " she", " went home"]


def texts(count, seed=3):
    draw = random.Random(seed)
    return ["".join(draw.choice(WORDS) for _ in range(draw.randint(1, 30))).lstrip() or "The" for _ in range(count)]


def likelihood(choice, context):
    """(sum, whether greedy) of the tokens after the first `context`, as lm-eval computes them."""
    found = choice["logprobs"]
    values, tops = found["token_logprobs"][context:-1], found["top_logprobs"][context:-1]
    return sum(values), all(value == max(top.values()) for value, top in zip(values, tops))


class Evaluation(ServerTest):
    FLAGS = ["--batch", "16", "--preload-adapters", "weather"]

    def ids(self, text):
        return [token["id"] for token in self.server.post("/tokenize", {"inputs": text}).json()]

    def choices(self, prompt, **more):
        found = self.complete(prompt, **SCORING | more)["choices"]
        self.assertEqual([c["index"] for c in found], list(range(len(found))))
        return [(c["text"], c["finish_reason"], c["logprobs"]) for c in found]

    def one(self, prompt, **more):
        choice, = self.choices(prompt, **more)
        return choice

    def streamed(self, prompt, **more):
        """The same, put together from the chunks of a stream."""
        found = {}
        for chunk in self.openai_stream("/v1/completions", {"prompt": prompt} | SCORING | more):
            part, = chunk["choices"]
            text, _, lists = found.get(part["index"], ("", None, {key: [] for key in LISTS}))
            lists = {key: lists[key] + part["logprobs"][key] for key in LISTS}
            found[part["index"]] = (text + part["text"], part["finish_reason"], lists)
        return [found[i] for i in sorted(found)]

    def setUp(self):
        self.texts = texts(24)
        self.alone = [self.one(text) for text in self.texts]

    def test_the_lists_are_those_of_the_convention(self):
        for text, (said, reason, found) in zip(self.texts, self.alone):
            ids = self.ids(text)
            self.assertEqual(set(found), set(LISTS))
            self.assertEqual({len(found[key]) for key in LISTS}, {len(ids) + 1})
            self.assertEqual((found["token_logprobs"][0], found["top_logprobs"][0], found["text_offset"][0]), (None, None, 0))
            self.assertEqual("".join(found["tokens"]), said)
            self.assertTrue(said.startswith(text))
            for value, top in zip(found["token_logprobs"][1:], found["top_logprobs"][1:]):
                self.assertTrue(math.isfinite(value) and value <= 0)
                self.assertIn(value, top.values())
                self.assertLessEqual(len(top), 2)
        self.assertEqual(len({tuple(found["token_logprobs"][1:]) for _, _, found in self.alone}), len(set(self.texts)))

    def test_many_in_one_request(self):
        self.assertEqual(self.choices(self.texts), self.alone)
        order = list(range(len(self.texts)))
        random.Random(1).shuffle(order)
        self.assertEqual(self.choices([self.texts[i] for i in order]), [self.alone[i] for i in order])
        for size in [2, 7]:
            found = [c for i in range(0, len(self.texts), size) for c in self.choices(self.texts[i:i + size])]
            self.assertEqual(found, self.alone)
        self.assertEqual(self.choices(self.texts[:16] * 8), self.alone[:16] * 8)  # 128, the most

    def test_ids_and_text(self):
        ids = [self.ids(text) for text in self.texts]
        self.assertEqual(self.choices(ids), self.alone)
        self.assertEqual([self.one(each) for each in ids], self.alone)
        self.assertEqual([self.one([each]) for each in ids[:4]], self.alone[:4])

    def test_many_requests_at_once(self):
        def beside():
            return self.complete("The rain", model="weather", max_tokens=40, seed=1)["choices"][0]["text"]

        wanted = beside()
        found = serving.all_at_once([lambda text=text: self.one(text) for text in self.texts] + [beside] * 4)
        self.assertEqual(found, self.alone + [wanted] * 4)
        halves = [lambda i=i: self.choices(self.texts[i::4]) for i in range(4)]
        self.assertEqual(serving.all_at_once(halves), [self.alone[i::4] for i in range(4)])

    def test_streams(self):
        self.assertEqual([self.streamed(text) for text in self.texts], [[each] for each in self.alone])
        self.assertEqual(self.streamed(self.texts), self.alone)
        self.assertEqual(self.streamed([self.ids(text) for text in self.texts]), self.alone)
        for more in [{"max_tokens": 0}, {"max_tokens": 9}, {"max_tokens": 9, "n": 3, "temperature": 1}, {"logprobs": 0}, {"logprobs": 5, "max_tokens": 3}]:
            for _ in range(2):  # the second time the prompts are in the prefix cache
                self.assertEqual(self.streamed(self.texts[:6], **more), self.choices(self.texts[:6], **more), more)

    def test_a_stream_has_the_prompt_in_its_first_chunk(self):
        chunks = self.openai_stream("/v1/completions", {"prompt": "The king said"} | SCORING | {"max_tokens": 12, "ignore_eos": True})
        first, second = (chunk["choices"][0] for chunk in chunks[:2])
        self.assertTrue(first["text"].startswith("The king said"))
        self.assertEqual(len(first["logprobs"]["tokens"]), 4)
        self.assertEqual((len(second["logprobs"]["tokens"]), second["logprobs"]["text_offset"]), (1, [len(first["text"])]))

    def test_no_new_token(self):
        for text, (_, _, found) in zip(self.texts, self.alone):
            said, reason, only = self.one(text, max_tokens=0)
            self.assertEqual((said, reason), (text, "length"))
            self.assertEqual(only, {key: found[key][:-1] for key in LISTS})

    def test_under_an_adapter(self):
        for text, base in zip(self.texts[:8], self.alone):
            under = self.one(text, model="weather")
            self.assertNotEqual(under[2]["token_logprobs"], base[2]["token_logprobs"])
            self.assertEqual(self.streamed([text], model="weather"), [under])
        self.assertEqual(self.choices(self.texts[:8], model="weather"), [self.one(text, model="weather") for text in self.texts[:8]])

    def test_an_answer_that_ends_at_once(self):
        """The token that ends a text is listed. Otherwise lm-eval, which drops the last value, drops one of the prompt."""
        ends = {"logit_bias": {str(EOS): 100}}
        text, (_, _, found) = self.texts[0], self.alone[0]
        for body in [{}, {"max_tokens": 3}]:
            said, reason, ended = self.one(text, **ends, **body)
            self.assertEqual((said, reason), (text, "stop"))
            self.assertEqual({key: ended[key][:-1] for key in LISTS}, {key: found[key][:-1] for key in LISTS})
            self.assertEqual({len(ended[key]) for key in LISTS}, {len(found["tokens"])})
            self.assertEqual((ended["tokens"][-1], ended["text_offset"][-1]), ("<|endoftext|>", len(text)))
            self.assertIn("<|endoftext|>", ended["top_logprobs"][-1])
            self.assertEqual(self.streamed(text, **ends, **body), [(said, reason, ended)])
        plain, = self.complete(text, **SCORING)["choices"]
        bent, = self.complete(text, **SCORING, **ends)["choices"]
        self.assertEqual(likelihood(bent, 1), likelihood(plain, 1))

    def test_prompts_as_long_as_the_context(self):
        """Prompt and answer share the context of 1,024 tokens, and nothing else limits the prompt."""
        draw = random.Random(4)
        ids = [draw.randrange(4000) for _ in range(1024)]
        whole = self.one(ids, max_tokens=0)[2]
        self.assertEqual(len(whole["token_logprobs"]), 1024)
        for length, more in [(1000, 0), (1000, 24), (1023, 1), (1023, 0)]:
            found = self.one(ids[:length], max_tokens=more, ignore_eos=True)[2]
            self.assertEqual(found["token_logprobs"][:length], whole["token_logprobs"][:length])
            self.assertEqual(len(found["token_logprobs"]), length + more)
        share = "this model's maximum context length is 1024 tokens, which prompt and answer share (--max-total-tokens)"
        for length, more, said in [(1024, 1, "the prompt has 1024 tokens; at most 1023 are possible: " + share),
                                   (1000, 25, "together at most 1024 are possible")]:
            answer = self.server.post("/v1/completions", {"prompt": ids[:length]} | SCORING | {"max_tokens": more})
            self.assertEqual(answer.status, 400)
            self.assertIn(said, answer.json()["error"]["message"])
            self.assertEqual(answer.json()["error"]["code"], "context_length_exceeded")

    def test_a_flag_limits_prompts(self):
        with serving.Server("--max-input-length", 100) as server:
            answer = server.post("/v1/completions", {"prompt": [5] * 101, "max_tokens": 1})
            self.assertEqual(answer.json()["error"]["message"], "the prompt has 101 tokens; at most 100 are possible (--max-input-length)")
            self.assertEqual(server.post("/v1/completions", {"prompt": [5] * 100, "max_tokens": 1}).status, 200)
            self.assertEqual(server.stop(), 0)

    def test_prompts_of_special_tokens(self):
        text, _, found = self.one([EOS])  # lm-eval begins rolling log-likelihoods with it
        self.assertEqual((found["tokens"][0], found["token_logprobs"][0], len(found["tokens"])), ("", None, 2))
        _, _, found = self.one([EOS, EOS, 500], max_tokens=0)
        self.assertEqual(len(found["token_logprobs"]), 3)
        self.assertTrue(all(math.isfinite(value) for value in found["token_logprobs"][1:]))
        _, _, empty = self.one([EOS, EOS], max_tokens=0)
        self.assertEqual(empty["token_logprobs"], found["token_logprobs"][:2])

    def test_greedy_texts_are_greedy(self):
        for text in self.texts[:6]:
            context = self.ids(text)
            written = self.complete(context, temperature=0, max_tokens=6, ignore_eos=True, return_token_ids=True)["choices"][0]["token_ids"]
            choice, = self.complete(context + written, **SCORING)["choices"]
            value, greedy = likelihood(choice, len(context))
            self.assertTrue(greedy)
            other, = self.complete(context + [77] * 6, **SCORING)["choices"]
            self.assertEqual((likelihood(other, len(context))[0] < value, likelihood(other, len(context))[1]), (True, False))


if __name__ == "__main__":
    serving.main()
