"""tenon quantize: its output names its format, and answers as the original does under that weight format."""
import json
import pathlib
import resource
import struct
import subprocess

import support
from support import PROGRAM, TALES, ProgramTest, as_lines, json_lines, tenon

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
FORMATS = ["float8_e4m3", "float8_e5m2", "int8", "int8_tensor", "int8_group32", "int4", "nf4", "bfloat16", "float16"]
# Policies that read the same codes and also round activations.
ALSO = {"int8": ["int8_act8"], "int4": ["int4_act8"], "bfloat16": ["bfloat16_dot", "bfloat16_amx"]}
LINES = as_lines([{"id": i, "input_ids": [5 + i, 17, 301], "max_new_tokens": 6, "ignore_eos": True, "logits_at": [0, 2], "logits_hash": True}
                  for i in range(3)])


def header(folder):
    with open(folder / "model.safetensors", "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))


class Quantize(ProgramTest):
    def quantized(self, word, *options, model=TALES, name="out"):
        out = self.folder / name
        done = tenon("quantize", "--model", model, "--weights", word, "--threads", 2, *options, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stderr.splitlines():
            self.assertRegex(line, "^tenon: not copied: ")
        return out, done.stdout

    def run_with(self, model, *options, status=0):
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=LINES)
        self.assertEqual(done.returncode, status, done.stderr)
        return json_lines(done.stdout), done.stderr

    def compiled(self, word, model=TALES):
        done = tenon("run", "--model", model, "--weights", word, "--threads", 1, stdin="")
        if done.returncode != 0:
            self.assertIn("compiled in", done.stderr)
        return done.returncode == 0

    def need(self, word, model=TALES):
        if not self.compiled(word, model):
            self.skipTest("no engine for --weights %s was compiled in" % word)

    def test_answers_are_those_of_the_original_in_that_format(self):
        self.need("int8")
        for word in FORMATS:
            out, _ = self.quantized(word, name=word)
            for weights in [word] + ALSO.get(word, []):
                if not self.compiled(weights):
                    continue
                original, _ = self.run_with(TALES, "--weights", weights)
                self.assertEqual(self.run_with(out, "--weights", weights)[0], original, weights)  # bit for bit

    def test_other_families(self):
        for case in ["llama_head_dim", "bloom_6_heads", "gptbigcode_mha", "mistral_window7"]:
            self.need("int8", GOLDEN / case)
            out, _ = self.quantized("int8", model=GOLDEN / case, name=case)
            line = as_lines([{"id": "a", "input_ids": [5, 6, 7], "max_new_tokens": 5, "ignore_eos": True, "logits_hash": True}])
            answers = [json_lines(tenon("run", "--model", model, "--weights", "int8", "--threads", 1, stdin=line).stdout)
                       for model in (GOLDEN / case, out)]
            self.assertEqual(*answers)
            self.assertEqual(len(answers[0][0]["output_ids"]), 5)

    def test_a_folder_is_run_as_it_is_stored(self):
        self.need("int8")
        out, _ = self.quantized("int8")
        answers, said = self.run_with(out)
        self.assertIn("--weights int8: so the model is stored", said)
        self.assertEqual(answers, self.run_with(TALES, "--weights", "int8")[0])
        floats, said = self.run_with(out, "--weights", "float32")
        self.assertNotIn("stored", said)
        self.assertNotEqual(floats, self.run_with(TALES)[0])

    def test_values_are_there_for_whom_the_format_is_not(self):
        out, _ = self.quantized("int4", "--group", 128)
        done = tenon("run", "--model", TALES, "--head", "int8_exact", stdin="")
        if done.returncode != 0:
            self.skipTest("no engine for --head int8_exact was compiled in")
        answers, said = self.run_with(out, "--head", "int8_exact")
        self.assertIn("stored as int4_group128, for which there is no engine here", said)
        self.assertRegex(said, r"it runs as float32, 24\.2 MB of weights instead of 4\.\d MB\n")
        self.assertEqual(answers, self.run_with(out, "--head", "int8_exact", "--weights", "float32")[0])

    def test_wide_groups_run_as_they_are_stored(self):
        for group in (64, 128):
            word = "int4_group%d" % group
            self.need(word)
            out, _ = self.quantized("int4", "--group", group, name=word)
            answers, said = self.run_with(out)
            self.assertIn("--weights %s: so the model is stored" % word, said)
            self.assertEqual(answers, self.run_with(TALES, "--weights", word)[0])

    def test_the_file_says_what_it_is(self):
        for word, group, name in [("int8", None, "int8"), ("int4", 64, "int4_group64"), ("bfloat16", None, "bfloat16")]:
            out, told = self.quantized(word, *(["--group", group] if group else []), name=name)
            metadata = header(out)["__metadata__"]
            self.assertEqual(metadata["tenon.weights"], name)
            self.assertIn(name, told)
            self.assertIn("12,099,584", told)
            self.assertEqual(metadata["format"], "pt" if word == "bfloat16" else "tenon")
            for file in ["config.json", "vocab.json", "merges.txt"]:
                self.assertEqual((out / file).read_bytes(), (TALES / file).read_bytes())
            inspected = tenon("inspect", "--model", out).stdout
            self.assertIn("stored as    %s, by tenon " % name, inspected)
            self.assertIn("unused       none", inspected)
            self.assertEqual(tenon("check", "--model", out, "--threads", 1).returncode, 0)
        self.assertNotIn("stored as", tenon("inspect", "--model", TALES).stdout)

    def test_what_it_says(self):
        done = tenon("quantize", "--weights", "int8", self.folder / "default")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stderr.splitlines()
        self.assertEqual(len(said), 2, said)
        self.assertIn("no --model was named: this is the default model", said[0])
        self.assertIn("not copied: README.md, adapters/, expected.json", said[1])

    def test_a_file_that_may_not_be_so_large_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run([PROGRAM, "quantize", "--model", TALES, "--weights", "int8", self.folder / "a" / "out"],
                              capture_output=True, encoding="utf-8", preexec_fn=limit, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("model.safetensors: cannot be written", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_shards_of_two_versions_are_inspected(self):
        out, _ = self.quantized("int8")
        data = (out / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        tensors = json.loads(data[8:8 + length])
        metadata = tensors.pop("__metadata__")
        names = sorted(tensors)
        weight_map = {}
        for shard, part in enumerate([names[::2], names[1::2]]):
            head, body = {"__metadata__": dict(metadata, **{"tenon.version": "9.%d" % shard})}, b""
            for name in part:
                begin, end = tensors[name]["data_offsets"]
                head[name] = dict(tensors[name], data_offsets=[len(body), len(body) + end - begin])
                body += data[8 + length + begin:8 + length + end]
                weight_map[name] = "s%d.safetensors" % shard
            text = json.dumps(head).encode()
            (out / ("s%d.safetensors" % shard)).write_bytes(struct.pack("<Q", len(text)) + text + body)
        (out / "model.safetensors").unlink()
        (out / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        done = tenon("inspect", "--model", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("stored as    int8, by tenon 9.0 and 9.1\n", done.stdout)

    def test_what_it_refuses(self):
        out, _ = self.quantized("int8")
        for arguments, status, words in [
                (["--weights", "int4", out], 1, "out: has a model already (model.safetensors)"),
                (["--weights", "int4", TALES], 1, "own folder"),
                (["--weights", "int4", "--group", 48, self.folder / "new"], 2, "--group"),
                (["--weights", "int8", "--group", 64, self.folder / "new"], 2, "--group 64 is of int4"),
                (["--weights", "int8_act8", self.folder / "new"], 2, "--weights"),
                ([self.folder / "new"], 2, "--weights"),
                (["--weights", "int8"], 2, "OUT")]:
            done = tenon("quantize", "--model", TALES, *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(words, done.stderr)
            self.assertNotIn(str(self.folder), done.stderr)
        done = tenon("quantize", "--model", out, "--weights", "int4", self.folder / "new")
        self.assertEqual(done.returncode, 1)
        self.assertIn("model.safetensors: its weights are int8 already", done.stderr)
        self.assertFalse((self.folder / "new").exists())

    def test_what_the_model_has_no_use_for_is_left_out_and_named(self):
        model = self.model_of("model.safetensors", config={"n_layer": 5})
        done = tenon("quantize", "--model", model, "--weights", "int8", self.folder / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("left out: transformer.h.5."), 12)
        self.assertNotIn("transformer.h.5.mlp.c_fc.weight", header(self.folder / "out"))

    def test_a_broken_folder_is_refused_by_name(self):
        out, _ = self.quantized("int8")
        data = (out / "model.safetensors").read_bytes()
        for old, new, words in [(b'"tenon.weights":"int8"', b'"tenon.weights":"int9"', "int9"),
                                (b'c_fc.weight.scale"', b'c_fc.weight.scalf"', "c_fc.weight.scale is missing"),
                                (b'"tenon.weights"', b'"tenon.heights"', "U8 cannot be read")]:
            (out / "model.safetensors").write_bytes(data.replace(old, new))
            for command in ["check", "inspect"]:
                done = tenon(command, "--model", out)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn("model.safetensors", done.stderr)
                self.assertIn(words, done.stderr)


class InspectWeights(ProgramTest):
    def test_bytes_under_each_policy_and_the_count_of_the_literature(self):
        text = tenon("inspect", "--model", TALES).stdout
        # The sizes are those of packed weights: with scales, in whole panels of 16 rows; tables and vectors in float32.
        pinned = {24199168: ["float32"], 12664832: ["bfloat16", "bfloat16_dot", "bfloat16_amx", "bfloat16_mma", "float16", "float16_mma"],
                  6969344: ["float8_e4m3", "float8_e5m2"], 7041024: ["int8", "int8_act8"], 6900864: ["int8_tensor"],
                  4374528: ["int4", "int4_act8", "nf4"], 7258112: ["int8_group32"], 4194304: ["int4_group64"], 4104192: ["int4_group128"]}
        for count, words in pinned.items():
            for word in words:
                self.assertRegex(text, r"\nweights      %s +%s bytes\n" % (word, "{:,}".format(count)))
        self.assertEqual(text.count("\nweights      "), sum(map(len, pinned.values())))
        masks = 6 * (1024 * 1024 + 4)
        self.assertIn("literature   {:,} bytes in float32, {:,} in int8".format(4 * 6049792 + masks, 6049792 + masks), text)
        self.assertNotIn("literature", tenon("inspect", "--model", GOLDEN / "bloom_6_heads").stdout)


if __name__ == "__main__":
    support.main()
