"""tenon generate: text that is printed token by token."""
import re

import support
from support import TALES, ProgramTest, tenon

PROMPT = "The quick brown fox jumped over the"


def generate(*arguments, **keywords):
    return tenon("generate", "--threads", 1, *arguments, **keywords)


class Generate(ProgramTest):
    def test_the_default_model_is_found_from_any_folder(self):
        done = generate(PROMPT, "--max-new-tokens", 6, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("6 million parameters"), 1)
        named = generate(PROMPT, "--max-new-tokens", 6, "--model", TALES)
        self.assertEqual((named.returncode, named.stderr, named.stdout), (0, "", done.stdout))
        self.assertGreater(len(named.stdout), 6)

    def test_the_prompt_may_come_from_standard_input(self):
        named = generate(PROMPT, "--max-new-tokens", 6, "--model", TALES)
        self.assertEqual(generate("--max-new-tokens", 6, "--model", TALES, stdin=PROMPT + "\n").stdout, named.stdout)

    def test_unusual_prompts(self):
        for prompt in ["[a, b]", "{}", "", "-", "\u00e9 \U0001f600", "%s%n"]:
            done = generate("--max-new-tokens", 2, "--model", TALES, "--", prompt)
            self.assertEqual(done.returncode, 1 if prompt == "" else 0, (prompt, done.stderr))

    def test_sampling_is_repeatable(self):
        options = [PROMPT, "--model", TALES, "--temperature", 1.2, "--top-k", 50, "--max-new-tokens", 20]
        first = generate(*options, "--seed", 7).stdout
        self.assertEqual(generate(*options, "--seed", 7).stdout, first)
        self.assertNotEqual(generate(*options, "--seed", 8).stdout, first)

    def test_stop(self):
        text = generate(PROMPT, "--model", TALES, "--max-new-tokens", 12).stdout.rstrip("\n")
        for stop in [text[5:8], text[3]]:
            stopped = generate(PROMPT, "--model", TALES, "--max-new-tokens", 12, "--stop", "nowhere", "--stop", stop).stdout
            self.assertEqual(stopped, text[:text.index(stop)] + "\n")

    def test_candidates(self):
        done = generate(PROMPT, "--model", TALES, "--max-new-tokens", 3, "--top", 10)
        tables = done.stdout.split("token ")[1:]
        self.assertEqual(len(tables), 3)
        for table in tables:
            rows = re.findall(r"^  ([> ]) ([01]\.\d{4})  \"", table, re.M)
            self.assertEqual(len(rows), 10)
            self.assertEqual(rows[0][0], ">")  # greedy decoding takes the first
            probabilities = [float(p) for _, p in rows]
            self.assertEqual(probabilities, sorted(probabilities, reverse=True))
        text = generate(PROMPT, "--model", TALES, "--max-new-tokens", 3).stdout
        self.assertTrue(done.stdout.endswith(text))

    def test_timing_goes_to_stderr(self):
        done = generate(PROMPT, "--model", TALES, "--max-new-tokens", 4, "--timing")
        for line in ["load ", "time to first token ", "decode ", "ms per token "]:
            self.assertIn(line, done.stderr)
        self.assertEqual(len(done.stderr.split("ms per token")[1].split()), 4)

    def test_refusals(self):
        for arguments, named in [((PROMPT, "--temperature", -1), "temperature"), ((PROMPT, "--top-p", 0), "top_p"),
                                 ((PROMPT, "--max-new-tokens", 5000), "max_new_tokens"), ((PROMPT, "--stop", ""), "stop"),
                                 ((PROMPT, "--logit-bias", "99999=1"), "logit_bias")]:
            done = generate("--model", TALES, *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn(named, done.stderr)

    def test_a_tokenizer_is_needed(self):
        done = generate(PROMPT, "--model", self.model_of("config.json", "model.safetensors"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("vocab.json", done.stderr)


if __name__ == "__main__":
    support.main()
