#!/usr/bin/env python3
"""tenon classify and tenon embed: the numbers of transformers and PEFT, the same bits in every batch, and refusals."""
import json
import math
import pathlib
import struct

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


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def product(head, row):
    """The logits of tenon::ClassifierHead: element i goes to partial sum i % 8, in double."""
    logits = []
    for weights in head:
        sums = [0.0] * 8
        for i, (a, b) in enumerate(zip(weights, row)):
            sums[i % 8] += a * b
        total = 0.0
        for each in sums:
            total += each
        logits.append(float32(total))
    return logits


WEATHER = TALES / "adapters" / "weather"


def classifier(folder, labels, width=None, name="score.weight", dtype="F32", **config):
    """The adapter `weather` with a head of `labels` rows: the head. Fields of `config` that are None are left out."""
    width = width or json.loads((TALES / "config.json").read_text())["n_embd"]
    head = [[float32(math.sin(7 * label + 3 * i + 1)) for i in range(width)] for label in range(labels)]
    values = struct.pack("<%df" % (labels * width), *(x for row in head for x in row))
    stored = (WEATHER / "adapter_model.safetensors").read_bytes()
    size = struct.unpack("<Q", stored[:8])[0]
    header, data = json.loads(stored[8:8 + size]), stored[8 + size:]
    header.pop("__metadata__", None)
    begin = len(data)
    header["base_model.model." + name] = {"dtype": dtype, "shape": [labels, width], "data_offsets": [begin, begin + len(values)]}
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data + values)
    fields = {**json.loads((WEATHER / "adapter_config.json").read_text()), "task_type": "SEQ_CLS", **config}
    (folder / "adapter_config.json").write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
    return head


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

    def test_adapters_bring_heads(self):
        heads = {name: classifier(self.folder / name, labels) for name, labels in [("one", 1), ("three", 3), ("many", 40)]}
        texts = ["Once upon a time", "The king", "Rain and wind from the north will come to the hills by night"]
        requests = [{"id": i, "text": text, "adapter": str(self.folder / name)} for i, (name, text) in
                    enumerate((name, text) for text in texts for name in heads)]
        together = self.ask(["classify"], TALES, requests)
        rows = self.ask(["embed", "--pooling", "last", "--no-normalize"], TALES, requests)
        for request, answer, row in zip(requests, together, rows):
            wanted = product(heads[pathlib.Path(request["adapter"]).name], [float32(x) for x in row["embedding"]])
            self.assertEqual([float32(x) for x in answer["logits"]], wanted)
            self.assertEqual(answer["label"], wanted.index(max(wanted)))
        for lora in ["looped", "gathered", "segmented"]:
            self.assertEqual(self.ask(["classify"], TALES, requests, "--lora", lora, "--adapter-slots", 1), together)
        self.assertEqual([self.ask(["classify"], TALES, [each])[0] for each in requests[:3]], together[:3])
        plain = self.ask(["embed"], TALES, [{**each, "adapter": str(WEATHER)} for each in requests])
        self.assertEqual(self.ask(["embed"], TALES, requests), plain)

    def test_adapters_for_embeddings(self):
        bare = self.folder / "bare"
        bare.mkdir()
        stored = (WEATHER / "adapter_model.safetensors").read_bytes()
        size = struct.unpack("<Q", stored[:8])[0]
        header = json.loads(stored[8:8 + size])
        header = {k.replace("base_model.model.transformer.", "base_model.model."): v for k, v in header.items()}  # AutoModel's names
        text = json.dumps(header).encode()
        (bare / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + stored[8 + size:])
        config = json.loads((WEATHER / "adapter_config.json").read_text())
        (bare / "adapter_config.json").write_text(json.dumps({**config, "task_type": "FEATURE_EXTRACTION"}))
        request = {"id": 1, "text": "Once upon a time", "adapter": str(bare)}
        self.assertEqual(self.ask(["embed"], TALES, [request]), self.ask(["embed"], TALES, [{**request, "adapter": str(WEATHER)}]))
        self.assertIn("FEATURE_EXTRACTION", self.ask(["classify"], TALES, [request], status=1)[0]["error"])
        self.assertIn("FEATURE_EXTRACTION", self.ask(["run"], TALES, [{"prompt": "a", "adapter": str(bare)}], status=1)[0]["error"])

    def test_adapters_without_a_sound_head_are_refused_by_name(self):
        cases = [("narrow", dict(labels=3, width=7), ["score.weight", "[3, 7]"]),
                 ("integers", dict(labels=3, dtype="I32"), ["score.weight", "I32"]),
                 ("bias", dict(labels=3, name="score.bias"), ["score.weight", "missing", "SEQ_CLS"]),
                 ("causal", dict(labels=3, task_type="CAUSAL_LM"), ["score.weight", "SEQ_CLS"]),
                 ("none", dict(labels=3, task_type=None), ["score.weight", "SEQ_CLS"]),
                 ("tokens", dict(labels=3, task_type="TOKEN_CLS"), ["task_type", "TOKEN_CLS"])]
        for name, arguments, words in cases:
            with self.subTest(name):
                classifier(self.folder / name, **arguments)
                request = {"id": 1, "text": "Once upon a time", "adapter": str(self.folder / name)}
                error = self.ask(["classify"], TALES, [request], status=1)[0]["error"]
                for word in words:
                    self.assertIn(word, error)
        folder = str(self.folder / "sound")
        classifier(self.folder / "sound", 3)
        request = {"id": 1, "text": "Once upon a time"}
        self.assertIn("SEQ_CLS", self.ask(["run"], TALES, [{"prompt": "a", "adapter": folder}], status=1)[0]["error"])
        self.assertIn("score.weight", self.ask(["classify"], TALES, [{**request, "adapter": {folder: 0.5}}], status=1)[0]["error"])
        self.assertIn("no classification head", self.ask(["classify"], TALES, [{**request, "adapter": str(WEATHER)}], status=1)[0]["error"])
        merged = tenon("classify", "--model", TALES, "--lora", "merged", stdin=as_lines([{**request, "adapter": folder}]))
        self.assertIn("score.weight", merged.stdout + merged.stderr)
        self.assertNotEqual(merged.returncode, 0)

    def test_a_quantised_copy_pools_alike(self):
        model = self.model_of("model.safetensors", "vocab.json", "merges.txt", config={})
        (model / "1_Pooling").mkdir()
        (model / "modules.json").write_text(json.dumps([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        copy = self.folder / "copy"
        done = tenon("quantize", "--model", model, "--weights", "int8", copy)
        self.assertEqual(done.returncode, 0, done.stderr)
        request = [{"id": "a", "text": "Once upon a time"}]
        mean = self.ask(["embed", "--pooling", "mean"], copy, request)
        self.assertEqual(self.ask(["embed"], copy, request), mean)
        self.assertNotEqual(self.ask(["embed", "--pooling", "last"], copy, request), mean)

    def test_a_bare_model_is_inspected_and_quantised(self):
        bare = HEADS / "mistral_bare"
        shown = tenon("inspect", "--model", bare)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("head none", shown.stdout)
        copy = self.folder / "bare"
        self.assertEqual(tenon("quantize", "--model", bare, "--weights", "bfloat16", copy).returncode, 0)
        request = [{"id": "a", "input_ids": [1, 2, 3]}]
        self.assertEqual(self.ask(["embed"], copy, request), self.ask(["embed"], bare, request, "--weights", "bfloat16"))
        refused = tenon("quantize", "--model", bare, "--to", "gguf", "--weights", "float32", copy.with_suffix(".gguf"))
        self.assertIn("no language head", refused.stderr)

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
