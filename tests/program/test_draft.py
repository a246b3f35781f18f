"""Guesses (--draft suffix, --draft lookup) change the steps of an answer and nothing of it."""
import json

import support
from support import TALES, ProgramTest, tenon

LIST = "one two three four, one two three four, one two three four, one two"
REQUESTS = [{"prompt": LIST, "max_new_tokens": 60},
            {"prompt": LIST, "max_new_tokens": 40, "temperature": 0.8, "seed": 5, "n": 2, "repetition_penalty": 1.1},
            {"prompt": LIST, "max_new_tokens": 40, "top_logprobs": 2, "frequency_penalty": 0.3},
            {"prompt": LIST, "max_new_tokens": 60, "stop": [" three"]},
            {"prompt": LIST, "max_new_tokens": 50, "regex": "( one two three four,){1,9}"},
            {"prompt": LIST, "max_new_tokens": 30, "adapter": str(TALES / "adapters" / "weather")}]


class Drafts(ProgramTest):
    def run_with(self, draft, *options, requests=REQUESTS):
        lines = "".join(json.dumps({"id": i, "logits_hash": True, **request}) + "\n" for i, request in enumerate(requests))
        done = tenon("run", "--model", TALES, "--draft", draft, *options, stdin=lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('"error"', done.stdout)
        return done.stdout, json.loads(done.stderr.strip().splitlines()[-1])

    def test_no_answer_changes(self):
        for options in [[], ["--cache", "contiguous"], ["--cache", "window", "--kv", "int8"], ["--scheduler", "fair"],
                        ["--weights", "int8_act8", "--token-budget", "5"]]:
            plain, stats = self.run_with("none", *options)
            self.assertEqual((stats["drafted"], stats["accepted"]), (0, 0))
            for draft in ["suffix", "lookup"]:
                guessed, with_guesses = self.run_with(draft, *options)
                self.assertEqual(sorted(plain.splitlines()), sorted(guessed.splitlines()), (draft, options))
                self.assertEqual(stats["tokens"], with_guesses["tokens"])
                self.assertGreater(with_guesses["drafted"], 0, (draft, options))

    def test_each_right_guess_saves_a_step(self):
        _, plain = self.run_with("none", requests=REQUESTS[4:5])
        _, guessed = self.run_with("lookup", requests=REQUESTS[4:5])
        # Timing decides how many guesses are verified (EngineOptions::draft_gain). The last token of a text may be a right guess; then its step gives no token more.
        self.assertGreater(guessed["accepted"], 0)
        self.assertIn(guessed["accepted"] - (plain["steps"] - guessed["steps"]), (0, 1))

    def test_a_prediction_changes_no_answer(self):
        plain, _ = self.run_with("none", requests=REQUESTS[:1])
        answer = json.loads(plain)
        for prediction in [answer["text"], answer["output_ids"], "three, and something else", [5, 5, 5]]:
            predicted, stats = self.run_with("suffix", requests=[{**REQUESTS[0], "prediction": prediction}])
            self.assertEqual(predicted, plain)
            self.assertGreater(stats["drafted"], 0)

    def test_a_prediction_of_unknown_tokens_is_refused(self):
        done = tenon("run", "--model", TALES, stdin='{"id": 1, "prompt": "a", "prediction": [99999999]}\n')
        self.assertIn("prediction", json.loads(done.stdout)["error"])

    def test_what_a_constraint_forces_takes_fewer_steps(self):
        schema = {"type": "object", "properties": {"temperature_outside": {"type": "integer", "maximum": 50}, "description_of_the_sky": {"enum": ["blue", "grey"]}},
                  "required": ["temperature_outside", "description_of_the_sky"], "additionalProperties": False}
        request = [{"prompt": "The weather:", "max_new_tokens": 80, "schema": schema}]
        plain, steps = self.run_with("none", requests=request)
        guessed, fewer = self.run_with("suffix", requests=request)
        self.assertEqual(plain, guessed)
        self.assertLess(fewer["steps"], steps["steps"])

    def test_without_a_cache_nothing_is_guessed(self):
        guessed, stats = self.run_with("suffix", "--cache", "none", requests=REQUESTS[:1])
        self.assertEqual(guessed, self.run_with("none", "--cache", "none", requests=REQUESTS[:1])[0])
        self.assertEqual(stats["drafted"], 0)

    def test_unknown_drafts_are_refused(self):
        done = tenon("run", "--model", TALES, "--draft", "eagle", stdin="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--draft", done.stderr)

    def test_what_verifies_no_guesses_is_refused(self):
        done = tenon("run", "--model", TALES, "--draft", "lookup", "--cache", "none", stdin="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--draft lookup needs a cache", done.stderr)


if __name__ == "__main__":
    support.main()
