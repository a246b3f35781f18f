"""tenon tokens: text to ids and back."""
import pathlib

import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon

DATA = pathlib.Path(__file__).resolve().parents[1] / "tokenizer" / "data"  # tests/tokenizer/make_fixtures.py

TEXTS = ["The rain in Spain falls", "", " ", "\n\n\t", "<|endoftext|>", "\u00e9\u4e2d\U0001f600 don't 123", "\x00\x7f"]


class Tokens(ProgramTest):
    def encode(self, rows, *options):
        done = tenon("tokens", "--model", TALES, *options, stdin=as_lines(rows))
        self.assertTrue(done.stdout.isascii())
        return done, json_lines(done.stdout)

    def test_round_trip(self):
        done, encoded = self.encode([{"text": text} for text in TEXTS])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        _, decoded = self.encode(encoded, "--decode")
        self.assertEqual([row["text"] for row in decoded], TEXTS)

    def test_special_tokens_are_text_and_decode_to_their_text(self):
        _, ((encoded),) = self.encode([{"text": "<|endoftext|>"}])
        self.assertNotIn(4095, encoded["ids"])
        self.assertEqual(self.encode([{"ids": [4095]}], "--decode")[1], [{"text": "<|endoftext|>"}])

    def test_needs_two_files_only(self):
        model = self.model_of("vocab.json", "merges.txt")
        done = tenon("tokens", "--model", model, stdin=as_lines([{"text": "The rain"}]))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_tokenizer_json_alone(self):
        for family in ("gpt2", "starcoder", "llama3", "bloom", "llama2", "mistral"):
            cases = json_lines((DATA / family / "cases.jsonl").read_text())
            texts = as_lines([{"text": case["text"]} for case in cases])
            for options, key in ([], "ids"), (["--special"], "prompt_ids"):
                done = tenon("tokens", "--model", DATA / family, *options, stdin=texts)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual([row["ids"] for row in json_lines(done.stdout)],
                                 [case.get(key, case["ids"]) for case in cases])
            done = tenon("tokens", "--model", DATA / family, "--decode", stdin=as_lines([{"ids": case["ids"]} for case in cases]))
            self.assertEqual([row["text"] for row in json_lines(done.stdout)],
                             [case.get("decoded", case["text"]) for case in cases])

    def test_special_is_about_encoding(self):
        done = tenon("tokens", "--model", TALES, "--decode", "--special", stdin="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--special", done.stderr)

    def test_a_tokenizer_that_is_not_read_is_named(self):
        model = self.model_of()
        (model / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "WordPiece", "vocab": {}}}')
        done = tenon("tokens", "--model", model, stdin=as_lines([{"text": "a"}]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokenizer.json: model.type", done.stderr)

    def test_bad_lines_among_good_ones(self):
        rows = [{"text": "a"}, "{", {"text": 1}, {"ids": [1]}, {"text": "a", "more": 1}, [], {"text": "a"}]
        done, answers = self.encode(rows)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(["error" in a for a in answers], [False, True, True, True, True, True, False])
        self.assertIn("more", answers[4]["error"])
        done, answers = self.encode([{"ids": [4096]}, {"ids": [-1]}, {"ids": 1}, {"ids": [1]}], "--decode")
        self.assertEqual(["error" in a for a in answers], [True, True, True, False])

    def test_bytes_that_are_no_utf8_become_replacements(self):
        _, (encoded,) = self.encode([{"text": "\u00e9"}])
        self.assertEqual(len(encoded["ids"]), 2)
        _, (half,) = self.encode([{"ids": encoded["ids"][:1]}], "--decode")
        self.assertEqual(half["text"], "\ufffd")


if __name__ == "__main__":
    support.main()
