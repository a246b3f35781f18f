"""tenon merge: the merged checkpoint, run plain, answers as the base does under the adapter; all else is as in the base."""
import json
import os
import pathlib
import resource
import struct
import subprocess

import support
from support import PROGRAM, TALES, ProgramTest, as_lines, json_lines, tenon

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("TENON_REFERENCE_DIR", ROOT.parent / "shared"))
CONFORMANCE = ROOT / "tests" / "conformance" / "adapters"
WEATHER = TALES / "adapters" / "weather"
TOLERANCE = 1e-3  # as golden_check.py


def tensors_of(folder):
    """{name: (type, shape, bytes)} of all files of a checkpoint."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        for name, tensor in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                found[name] = (tensor["dtype"], tensor["shape"], data[8 + length + begin:8 + length + end])
    return found


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def request_of(ref, **more):
    return {"input_ids": ref["input_ids"], "max_new_tokens": len(ref["greedy_ids"]), "ignore_eos": True,
            "logits_at": [int(at) for at in ref["logits_at"]]} | more


def differs(ref, answer):
    """The first difference between the answer and the reference, by the rules of golden_check.py; None if there is none."""
    if "error" in answer:
        return answer["error"]
    for at, wanted in ref["logits_at"].items():
        worst = max(abs(g - w) for g, w in zip(answer["logits"][at], wanted, strict=True))
        if not worst <= TOLERANCE * max(1.0, max(map(abs, wanted))):
            return "logits at %s: off by %.3g" % (at, worst)
    for got, wanted, margin in zip(answer["output_ids"], ref["greedy_ids"], ref["greedy_margins"], strict=True):
        if got != wanted:
            return None if margin < 5 * TOLERANCE else "token %d instead of %d" % (got, wanted)
    return None


class MergeTest(ProgramTest):
    def merge(self, model, adapter, *options, name="out", status=0):
        """The merged folder, and the process."""
        out = self.folder / name
        done = tenon("merge", "--model", model, "--adapter", adapter, "--threads", 1, "--out", out, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(out.exists(), status == 0)
        return out, done

    def ask(self, model, requests, *options):
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json_lines(done.stdout)


class Reference(MergeTest):
    def cases(self, *kinds):
        """Folders of ../shared with adapters, and their expected.json."""
        for kind in kinds or ["golden_adapters"]:
            if not (SHARED / kind).is_dir():
                self.skipTest("no reference data; it is looked for in ../shared beside the repository and in TENON_REFERENCE_DIR")
            for case in sorted((SHARED / kind).iterdir()):
                # The reference of Falcon RW adds ALiBi twice (docs/decisions/0026).
                if (case / "expected.json").exists() and case.name != "falcon_rw_alibi":
                    yield case, json.loads((case / "expected.json").read_text())

    def test_merged_models_answer_as_PEFT_does(self):
        merged = 0
        for case, expected in self.cases("golden_adapters", "golden_families", "golden_moe"):
            base = self.ask(case, [request_of(ref) for rows in expected["adapters"].values() for ref in rows])
            for adapter, rows in sorted(expected["adapters"].items()):
                plain, base = base[:len(rows)], base[len(rows):]
                with self.subTest(case=case.name, adapter=adapter):
                    folder, name = case / "adapters" / adapter, case.name + "-" + adapter
                    if case.name.endswith("_alora"):
                        _, done = self.merge(case, folder, name=name, status=1)
                        self.assertIn("adapter_config.json: alora_invocation_tokens", done.stderr)
                        continue
                    out, _ = self.merge(case, folder, name=name)
                    answers = self.ask(out, [request_of(ref) for ref in rows])
                    self.assertEqual([differs(ref, answer) for ref, answer in zip(rows, answers)], [None] * len(rows))
                    # The plain base fails the same check.
                    self.assertTrue(all(differs(ref, answer) for ref, answer in zip(rows, plain)))
                    merged += 1
        self.assertGreaterEqual(merged, 50)

    def test_all_others_are_exact_or_refused(self):
        refused = 0
        for case, expected in self.cases():
            for kind in ["refuse_or_exact", "must_refuse"]:
                for adapter, entry in expected.get(kind, {}).items():
                    with self.subTest(case=case.name, adapter=adapter):
                        out = self.folder / (case.name + adapter)
                        done = tenon("merge", "--model", case, "--adapter", case / "adapters" / adapter, "--out", out)
                        if done.returncode == 0:
                            self.assertEqual(kind, "refuse_or_exact")
                            for ref, answer in zip(entry["rows"], self.ask(out, [request_of(ref) for ref in entry["rows"]])):
                                self.assertIsNone(differs(ref, answer))
                            continue
                        self.assertEqual(done.returncode, 1)
                        self.assertRegex(done.stderr, r"adapter_(config\.json|model\.safetensors): ")
                        refused += 1
        self.assertGreaterEqual(refused, 3)

    def test_config_json_changes_only_where_the_head_is_untied(self):
        untied = {"gpt2_dora_embedding": ["dora_embed"], "gpt2_half_files": ["embedding_saved_bf16"],
                  "gpt2_lora_embedding": ["embedding", "embedding_with_base_copy"],
                  "gpt2_modules_to_save": ["embedding_saved"], "gpt2_trainable_tokens": [], "qwen3_trainable_tokens": [],
                  "qwen3_lora_embedding": ["embedding", "embedding_with_base_copy"],
                  "qwen3_modules_to_save": ["head_saved", "embedding_saved", "both_saved"]}
        for case, expected in self.cases():
            for adapter in expected["adapters"] if case.name in untied else []:
                with self.subTest(case=case.name, adapter=adapter):
                    out, done = self.merge(case, case / "adapters" / adapter, name=case.name + "-" + adapter)
                    unties = adapter in untied[case.name]
                    self.assertEqual(config_of(out), config_of(case) | ({"tie_word_embeddings": False} if unties else {}))
                    self.assertEqual(set(tensors_of(out)) - set(tensors_of(case)), {"lm_head.weight"} if unties else set())
                    self.assertEqual("config.json: tie_word_embeddings = false\n" in done.stderr, unties)


class Conformance(MergeTest):
    def test_merged_models_answer_as_PEFT_does(self):
        expected = json.loads((CONFORMANCE / "expected.json").read_text())
        counts = {"merged": 0, "refused": 0}
        for case in expected["cases"]:
            if not isinstance(case["adapter"], str):
                continue
            with self.subTest(case=case["name"], model=case["model"]):
                out = self.folder / ("%s-%s" % (case["model"], case["name"]))
                done = tenon("merge", "--model", CONFORMANCE / case["model"], "--adapter", CONFORMANCE / case["adapter"],
                             "--threads", 1, "--dtype", "float32", "--out", out)
                if done.returncode:
                    # An activated LoRA has no place in the weights.
                    due = case["expect"] == "refused" or "alora_invocation_tokens: activated LoRA" in done.stderr
                    self.assertEqual((done.returncode, due), (1, True), done.stderr)
                    self.assertFalse(out.exists())
                    counts["refused"] += 1
                    continue
                self.assertIn("greedy", case)
                answers = self.ask(out, [{"input_ids": p["input_ids"], "max_new_tokens": 4, "ignore_eos": True,
                                          "logits_at": p["logits_at"]} for p in expected["prompts"]])
                for answer, wanted, greedy in zip(answers, case["logits"], case["greedy"], strict=True):
                    for each in wanted:
                        bound = 1e-4 * max(1.0, max(map(abs, each["values"])))
                        for got, value in zip(answer["logits"][str(each["at"])], each["values"]):
                            self.assertLessEqual(abs(got - value), bound)
                    self.assertIn(greedy and greedy["ids"], [None, answer["output_ids"]])
                counts["merged"] += 1
        self.assertGreaterEqual(counts["merged"], 340)
        self.assertGreaterEqual(counts["refused"], 10)


class Merge(MergeTest):
    REQUESTS = [{"id": i, "prompt": text, "max_new_tokens": 12, "ignore_eos": True, "logits_at": [1], "logits_hash": True}
                for i, text in enumerate(["The king said", "It rained"])]

    def test_the_bits_are_those_of_an_update_at_load(self):
        out, done = self.merge(TALES, WEATHER, "--dtype", "float32")
        self.assertRegex(done.stdout, r"^merged: \d+ of \d+ tensors changed, [0-9,]+ bytes of tensors in 1 file\n$")
        self.assertIn("not copied: README.md, adapters/, expected.json\n", done.stderr)
        answers = self.ask(out, self.REQUESTS)
        adapted = [dict(request, adapter=str(WEATHER)) for request in self.REQUESTS]
        self.assertEqual(answers, self.ask(TALES, adapted, "--lora", "merged"))
        self.assertNotEqual(answers, self.ask(TALES, self.REQUESTS))

    def test_all_that_the_adapter_leaves_is_as_in_the_base(self):
        out, done = self.merge(TALES, WEATHER)
        before, after = tensors_of(TALES), tensors_of(out)
        self.assertEqual(set(before), set(after))
        changed = {name for name in before if before[name] != after[name]}
        updated = {name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] + ".weight" for name in tensors_of(WEATHER)}
        self.assertEqual({name.removeprefix("transformer.") for name in changed},
                         {name.removeprefix("transformer.") for name in updated})
        self.assertIn("merged: %d of %d tensors" % (len(changed), len(after)), done.stdout)
        for name in ["config.json", "vocab.json", "merges.txt"]:
            self.assertEqual((out / name).read_bytes(), (TALES / name).read_bytes())
        self.assertEqual(oct((out / "config.json").stat().st_mode), oct((out / "model.safetensors").stat().st_mode))

    def test_a_type_for_all_weights(self):
        for word, kind, tolerance in [("float32", "F32", 0), ("bfloat16", "BF16", 0.3), ("float16", "F16", 0.05)]:
            out, _ = self.merge(TALES, WEATHER, "--dtype", word, name=word)
            self.assertEqual({each[0] for each in tensors_of(out).values()}, {kind})
            self.assertEqual(config_of(out), config_of(TALES) | {"dtype": word})
            again, _ = self.merge(out, WEATHER, name=word + "-again")  # keeps the type
            self.assertEqual({each[0] for each in tensors_of(again).values()}, {kind})
            rounded, exact = (self.ask(model, self.REQUESTS[:1])[0]["logits"]["1"] for model in (out, self.folder / "float32"))
            worst = max(abs(a - b) for a, b in zip(rounded, exact))
            self.assertLessEqual(worst, tolerance, word)
            self.assertEqual(worst > 0, tolerance > 0, word)

    def test_a_base_of_16_bits_is_rounded_once_to_its_own_type(self):
        base = self.folder / "base"
        self.assertEqual(tenon("quantize", "--model", TALES, "--weights", "bfloat16", base).returncode, 0)
        out, _ = self.merge(base, WEATHER)
        exact, _ = self.merge(base, WEATHER, "--dtype", "float32", name="exact")
        kinds, floats = tensors_of(out), tensors_of(exact)
        for name, (kind, shape, data) in kinds.items():
            self.assertEqual((kind, shape), (tensors_of(base)[name][0], floats[name][1]))
            if kind == "BF16":
                near = struct.unpack("<%df" % (len(data) // 2), b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
                full = struct.unpack("<%df" % (len(data) // 2), floats[name][2])
                self.assertTrue(all(abs(n - f) <= abs(f) * 2**-8 for n, f in zip(near, full)), name)

    def test_a_bias_that_the_family_has_a_field_for(self):
        adapter = self.adapter_of("llama", {"lora_bias": True}, lambda name, shape: (name.replace(".weight", ".bias"), shape[:1])
                                  if ".lora_B." in name and "self_attn" in name else None, only="self_attn")
        base = CONFORMANCE / "llama"
        out, done = self.merge(base, adapter, "--dtype", "float32")
        self.assertEqual(config_of(out), config_of(base) | {"attention_bias": True, "dtype": "float32"})
        added = set(tensors_of(out)) - set(tensors_of(base))
        self.assertEqual(len(added), 4 * config_of(base)["num_hidden_layers"])
        self.assertEqual({line for line in done.stderr.splitlines() if "added: " in line}, {"tenon: added: " + name for name in added})
        requests = [{"input_ids": [5, 17, 3, 9], "logits_at": [3], "max_new_tokens": 6, "ignore_eos": True}]
        (merged,), (adapted,) = self.ask(out, requests), self.ask(base, [dict(requests[0], adapter=str(adapter))])
        self.assertEqual(merged["output_ids"], adapted["output_ids"])
        # Two orders of the same sums.
        self.assertLess(max(abs(a - b) for a, b in zip(merged["logits"]["3"], adapted["logits"]["3"])), 1e-4)

    def adapter_of(self, model, config, more, only=""):
        """A copy of the adapter rank1 of the conformance kit, with changed config and tensors that more(name, shape) adds."""
        source = CONFORMANCE / model / "adapters" / "rank1"
        folder = self.folder / "adapter"
        folder.mkdir()
        tensors = {name: each for name, each in tensors_of(source).items() if only in name}
        for name, (kind, shape, _) in list(tensors.items()):
            made = more(name, shape)
            if made:
                values = [0.25 * (i % 5) - 0.5 for i in range(made[1][0])]
                tensors[made[0]] = ("F32", made[1], struct.pack("<%df" % len(values), *values))
        targets = sorted({name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0].rsplit(".", 1)[1] for name in tensors})
        (folder / "adapter_config.json").write_text(json.dumps(dict(json.loads((source / "adapter_config.json").read_text()),
                                                                    target_modules=targets, **config)))
        header, data = {}, b""
        for name, (kind, shape, values) in tensors.items():
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        text = json.dumps(header).encode()
        (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder

    def test_a_bias_that_no_field_gives_is_refused(self):
        adapter = self.adapter_of("llama", {"lora_bias": True}, lambda name, shape: (name.replace(".weight", ".bias"), shape[:1])
                                  if ".lora_B." in name else None, only="self_attn")
        base = self.folder / "mistral"
        base.mkdir()
        (base / "model.safetensors").symlink_to(CONFORMANCE / "llama" / "model.safetensors")
        (base / "config.json").write_text(json.dumps(dict(config_of(CONFORMANCE / "llama"), model_type="mistral", sliding_window=None,
                                                          architectures=["MistralForCausalLM"])))
        _, done = self.merge(base, adapter, status=1)
        self.assertRegex(done.stderr, r"adapter_model\.safetensors: \S+\.lora_B\.bias: is a bias of a linear that has none")

    def test_quantised_bases_are_decoded_where_a_type_is_given(self):
        gguf = self.folder / "tales.gguf"
        self.assertEqual(tenon("quantize", "--model", TALES, "--to", "gguf", "--weights", "q8_0", gguf).returncode, 0)
        _, done = self.merge(gguf, WEATHER, status=1)
        self.assertRegex(done.stderr, r"tales\.gguf: \S+: is quantised \(Q8_0\); --dtype")
        out, _ = self.merge(gguf, WEATHER, "--dtype", "float32")
        adapted = [dict(request, adapter=str(WEATHER)) for request in self.REQUESTS]
        self.assertEqual(self.ask(out, self.REQUESTS), self.ask(gguf, adapted, "--lora", "merged", "--weights", "float32"))

    def test_codes_of_tenon_are_refused(self):
        base = self.folder / "base"
        self.assertEqual(tenon("quantize", "--model", TALES, "--weights", "int8", base).returncode, 0)
        _, done = self.merge(base, WEATHER, "--dtype", "float32", status=1)
        self.assertIn("model.safetensors: its weights are int8 already", done.stderr)

    def test_nothing_is_written_over_and_errors_leave_nothing(self):
        existing = self.folder / "existing"
        existing.mkdir()
        for arguments, status, words in [
                (["--adapter", WEATHER, "--out", existing], 1, "existing: exists already; name a new folder"),
                (["--adapter", WEATHER, "--out", str(existing) + "/"], 1, "existing: exists already"),
                (["--adapter", TALES, "--out", self.folder / "a" / "b"], 1, "adapter_config.json"),
                (["--adapter", WEATHER, "--out", existing / "new", "--dtype", "int8"], 2, "--dtype"),
                (["--adapter", WEATHER], 2, "--out"),
                (["--out", self.folder / "new"], 2, "--adapter")]:
            done = tenon("merge", "--model", TALES, *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(words, done.stderr)
            self.assertNotIn(str(self.folder), done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [existing])
        self.assertEqual(list(existing.iterdir()), [])

    def test_adapters_in_subfolders_are_named(self):
        for name in ("second", "first"):
            (self.folder / "several" / name).mkdir(parents=True)
            (self.folder / "several" / name / "adapter_config.json").write_text("{}")
        done = tenon("merge", "--model", TALES, "--adapter", self.folder / "several", "--out", self.folder / "out")
        self.assertEqual(done.returncode, 1)
        self.assertIn('adapter_config.json: "several" has none, but these subfolders have one: first, second; name one of them', done.stderr)

    def test_a_full_disk_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run([PROGRAM, "merge", "--model", TALES, "--adapter", WEATHER, "--out", self.folder / "a" / "out"],
                              capture_output=True, encoding="utf-8", preexec_fn=limit, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("model.safetensors: cannot be written", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_values_beyond_a_type_are_refused(self):
        base, _ = self.merge(TALES, WEATHER, "--dtype", "float32", name="base")
        data = bytearray((base / "model.safetensors").read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        begin = json.loads(data[8:8 + length])["transformer.ln_f.bias"]["data_offsets"][0]
        data[8 + length + begin:8 + length + begin + 4] = struct.pack("<f", 70000.0)
        (base / "model.safetensors").write_bytes(data)
        _, done = self.merge(base, WEATHER, "--dtype", "float16", status=1)
        self.assertIn("model.safetensors: transformer.ln_f.bias: has a value that is not finite or that F16 cannot hold", done.stderr)
        self.merge(base, WEATHER, "--dtype", "bfloat16")


if __name__ == "__main__":
    support.main()
