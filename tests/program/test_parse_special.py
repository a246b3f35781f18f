"""The spelling of a special token in a text: ordinary text, or its id with --parse-special and "parse_special"."""
import pathlib
import sys

import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon

DATA = pathlib.Path(__file__).resolve().parents[1] / "tokenizer" / "data"  # tests/tokenizer/make_fixtures.py
REPORTS = pathlib.Path(__file__).resolve().parents[3] / "shared" / "reports"
END = 4095  # <|endoftext|> of the default model


class ParseSpecial(ProgramTest):
    def tokens(self, model, texts, *options):
        done = tenon("tokens", "--model", model, *options, stdin=as_lines([{"text": text} for text in texts]))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [row["ids"] for row in json_lines(done.stdout)]

    def test_tokens_equal_the_reference(self):
        for family in sorted(path.name for path in DATA.iterdir()):
            cases = json_lines((DATA / family / "cases.jsonl").read_text())
            texts = [case["text"] for case in cases]
            parsed = [case.get("parsed_ids", case["ids"]) for case in cases]
            prompts = [case.get("parsed_prompt_ids", case.get("prompt_ids", case["ids"])) for case in cases]
            self.assertEqual(self.tokens(DATA / family, texts, "--parse-special"), parsed, family)
            self.assertEqual(self.tokens(DATA / family, texts, "--parse-special", "--special"), prompts, family)

    def test_is_about_encoding(self):
        done = tenon("tokens", "--model", TALES, "--decode", "--parse-special", stdin="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--parse-special", done.stderr)

    # report: prompt_special_tokens_are_text
    def test_a_prompt_that_a_client_formatted(self):
        model = REPORTS / "prompt_special_tokens_are_text" / "model"
        if not model.exists():
            print(f"SKIPPED: {model} is not here", file=sys.stderr)
            self.skipTest("no reports")
        prompt = ("<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
                  "<|start_header_id|>assistant<|end_header_id|>\n\n")
        (text,), (ids,) = self.tokens(model, [prompt], "--special"), self.tokens(model, [prompt], "--special", "--parse-special")
        self.assertEqual((len(text), len(ids)), (81, 27))
        self.assertEqual(self.tokens(model, ["<|eot_id|>hi"], "--special", "--parse-special"), [[500, 504, 71, 72]])

    def test_run_and_generate(self):
        prompt = "The rain<|endoftext|>Once"
        ((ids,),) = [self.tokens(TALES, [prompt], "--parse-special")]
        self.assertEqual(ids.count(END), 1)
        common = {"max_new_tokens": 4, "ignore_eos": True, "logits_hash": True}
        rows = [dict(common, id="ids", input_ids=ids), dict(common, id="parsed", prompt=prompt, parse_special=True),
                dict(common, id="text", prompt=prompt), dict(common, id="no", prompt=prompt, parse_special=False)]
        answers, _ = self.answers(rows)
        by_id = {answer["id"]: {k: v for k, v in answer.items() if k != "id"} for answer in answers}
        self.assertEqual(by_id["ids"], by_id["parsed"])
        self.assertEqual(by_id["text"], by_id["no"])
        self.assertNotEqual(by_id["text"], by_id["parsed"])
        answers, _ = self.answers(rows, "--parse-special")
        flagged = {answer["id"]: {k: v for k, v in answer.items() if k != "id"} for answer in answers}
        self.assertEqual(flagged, dict(by_id, text=by_id["parsed"]))
        (refused,), _ = self.answers([{"prompt": "a", "parse_special": 1}], status=1)
        self.assertIn("parse_special", refused["error"])
        show = lambda *options: tenon("generate", prompt, "--model", TALES, "--threads", 1, "--max-new-tokens", 4, "--ignore-eos", *options)
        plain, parsed = show(), show("--parse-special")
        self.assertEqual((plain.returncode, parsed.returncode), (0, 0), plain.stderr + parsed.stderr)
        self.assertEqual(parsed.stdout, by_id["parsed"]["text"] + "\n")
        self.assertEqual(plain.stdout, by_id["text"]["text"] + "\n")


if __name__ == "__main__":
    support.main()
