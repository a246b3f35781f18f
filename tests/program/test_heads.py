#!/usr/bin/env python3
"""tenon classify and tenon embed: the numbers of transformers and PEFT, the same bits in every batch, and refusals."""
import json
import math
import pathlib

from support import TALES, ProgramTest, as_lines, json_lines, main, tenon

HEADS = pathlib.Path(__file__).resolve().parents[1] / "golden_heads"
TOLERANCE = 1e-4


def cases():
    for case in sorted(HEADS.iterdir()):
        if (case / "expected.json").exists():
            expected = json.loads((case / "expected.json").read_text())
            for adapter, rows in [(None, expected.get("rows", []))] + sorted(expected.get("adapters", {}).items()):
                if rows:
                    yield case, expected["kind"], adapter, rows


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


class Heads(ProgramTest):
    def ask(self, words, model, requests, *options, status=0):
        done = tenon(*words, "--model", model, "--threads", 1, *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, status, done.stderr)
        return json_lines(done.stdout)

    def requests(self, case, adapter, rows):
        return [{"id": i, "input_ids": row["input_ids"], **({"adapter": str(case / "adapters" / adapter)} if adapter else {})}
                for i, row in enumerate(rows)]

    def near(self, got, wanted):
        self.assertEqual(len(got), len(wanted))
        bound = TOLERANCE * max(1, max(map(abs, wanted)))
        for g, w in zip(got, wanted):
            self.assertLessEqual(abs(g - w), bound)

    def test_numbers_are_those_of_transformers(self):
        for case, kind, adapter, rows in cases():
            with self.subTest(case=case.name, adapter=adapter):
                requests = self.requests(case, adapter, rows)
                if kind == "sequence_classification":
                    for row, answer in zip(rows, self.ask(["classify"], case, requests)):
                        self.near(answer["logits"], row["logits"])
                        self.assertEqual(answer["label"], row["label"])
                    continue
                for pooling, key in (("last", "last_token"), ("mean", "mean")):
                    plain = self.ask(["embed", "--pooling", pooling, "--no-normalize"], case, requests)
                    normalized = self.ask(["embed", "--pooling", pooling], case, requests)
                    for row, answer, other in zip(rows, plain, normalized):
                        self.near(answer["embedding"], row[key])
                        self.near(other["embedding"], [x / length(row[key]) for x in row[key]])

    def test_bits_do_not_depend_on_the_batch(self):
        for case, kind, adapter, rows in cases():
            with self.subTest(case=case.name, adapter=adapter):
                words = ["classify"] if kind == "sequence_classification" else ["embed", "--pooling", "mean"]
                requests = self.requests(case, adapter, rows)
                together = self.ask(words, case, requests * 3)
                alone = [self.ask(words, case, [each])[0] for each in requests[-3:]]
                self.assertEqual(together[-3:], alone)
                small = self.ask(words, case, requests * 3, "--token-budget", 7, "--no-prefix-reuse", "--cache", "contiguous")
                self.assertEqual(small, together)

    def test_text_is_tokenised(self):
        ids = json_lines(tenon("tokens", "--model", TALES, stdin='{"text": "Once upon a time"}\n').stdout)[0]["ids"]
        by_text, by_ids = self.ask(["embed"], TALES, [{"id": "a", "text": "Once upon a time"}, {"id": "b", "input_ids": ids}])
        self.assertEqual(by_text["embedding"], by_ids["embedding"])
        self.assertAlmostEqual(length(by_text["embedding"]), 1, places=5)

    def test_a_folder_names_its_pooling(self):
        model = self.model_of("model.safetensors", "vocab.json", "merges.txt", config={})
        (model / "1_Pooling").mkdir()
        (model / "modules.json").write_text(json.dumps([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        request = [{"id": "a", "text": "Once upon a time"}]
        mean = self.ask(["embed", "--pooling", "mean"], TALES, request)
        self.assertEqual(self.ask(["embed"], model, request), mean)
        self.assertNotEqual(self.ask(["embed", "--pooling", "last"], model, request), mean)

    def test_refusals_name_the_reason(self):
        def error(words, model, request):
            return self.ask(words, model, [request], status=1)[0]["error"]
        self.assertIn("no classification head", error(["classify"], TALES, {"input_ids": [1]}))
        self.assertIn("temperature", error(["embed"], TALES, {"input_ids": [1], "temperature": 1}))
        self.assertIn("text", error(["embed"], TALES, {"id": 1}))
        self.assertIn("input_ids", error(["embed"], TALES, {"text": "a", "input_ids": [1]}))
        self.assertIn("no language head", error(["run"], HEADS / "llama", {"input_ids": [1]}))
        self.assertIn("no language head", error(["run"], HEADS / "mistral_bare", {"input_ids": [1]}))
        self.assertIn("vocabulary", error(["embed"], HEADS / "llama", {"input_ids": [61]}))


if __name__ == "__main__":
    main()
