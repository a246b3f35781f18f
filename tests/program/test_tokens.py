"""tenon tokens: text to ids and back."""
import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon

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
        if len(encoded["ids"]) == 2:
            _, (half,) = self.encode([{"ids": encoded["ids"][:1]}], "--decode")
            self.assertEqual(half["text"], "\ufffd")


if __name__ == "__main__":
    support.main()
