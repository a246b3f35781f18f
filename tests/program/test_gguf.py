"""A GGUF file in place of a model folder: the same answers, tokens and texts."""
import json
import os
import pathlib
import re

import gguf_file
import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUESTS = [{"id": "a", "prompt": "The quick brown fox", "max_new_tokens": 12, "logits_hash": True},
            {"id": "b", "input_ids": [5, 17, 301], "max_new_tokens": 6, "ignore_eos": True, "logits_at": [0, 2]}]
TEXTS = ["The king\u2019s daughter said: 'don't go!'", "  two  spaces\n\n1904", "caf\u00e9 \U0001f680", "<|endoftext|>"]


class Gguf(ProgramTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "tales.gguf"

    def run_with(self, model, *options):
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=as_lines(REQUESTS))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json_lines(done.stdout)

    def test_answers_are_those_of_the_folder(self):
        gguf_file.write_tales(self.file)
        self.assertEqual(self.run_with(self.file), self.run_with(TALES))  # bit for bit
        link = self.folder / "a link"
        link.symlink_to(self.file)
        self.assertEqual(self.run_with(link), self.run_with(TALES))

    def test_keys_that_change_nothing(self):
        """Keys of converters, quantisers and newer tokenizers."""
        tokens = {f"tokenizer__ggml__{name}_token_id": 7 for name in ("prefix", "suffix", "middle", "fim_pre", "fim_suf", "fim_mid", "mask")}
        gguf_file.write_tales(
            self.file, **tokens, general__type="model", general__size_label="6M", general__license="mit", general__tags=["text", "story"],
            general__languages=["en"], general__base_model__count=1, general__base_model__0__name="tales", general__file_type=1,
            quantize__imatrix__file="a.dat", quantize__imatrix__dataset="a.txt", quantize__imatrix__entries_count=25,
            quantize__imatrix__chunks_count=9, tokenizer__ggml__add_sep_token=False, tokenizer__ggml__add_space_prefix=False,
            tokenizer__ggml__token_type_count=1, tokenizer__huggingface__json="{}", tokenizer__chat_templates=["tools"], split__count=1,
            split__no=0, gpt2__vocab_size=4096, gpt2__pooling_type=3, gpt2__attention__causal=True)
        self.assertEqual(self.run_with(self.file), self.run_with(TALES))

    def test_adapters(self):
        gguf_file.write_tales(self.file)
        request = as_lines([dict(REQUESTS[0], adapter=str(TALES / "adapters" / "weather"))])
        answers = [tenon("run", "--model", model, "--threads", 1, stdin=request) for model in (self.file, TALES)]
        self.assertEqual(json_lines(answers[0].stdout), json_lines(answers[1].stdout))
        self.assertIn("output_ids", answers[0].stdout)

    def test_tokens_are_those_of_the_folder(self):
        gguf_file.write_tales(self.file)
        lines = as_lines([{"text": text} for text in TEXTS])
        for options in ([], ["--special"], ["--special", "--parse-special"]):
            found, wanted = (tenon("tokens", "--model", model, *options, stdin=lines) for model in (self.file, TALES))
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertEqual(found.stdout, wanted.stdout)

    def test_inspect(self):
        gguf_file.write_tales(self.file)
        done = tenon("inspect", "--model", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("gpt2: 6 layers of width 256", "in tales.gguf, 76 F16", "runs in      float32", "head tied",
                      "byte-level BPE (GPT-2), 4,096 ids", "unused       none", "adapters     none"):
            self.assertIn(words, done.stdout)

    def test_refused_files_name_the_key(self):
        for changes, words in ((dict(general__architecture="mamba"), ["general.architecture", "mamba", "llama"]),
                               (dict(gpt2__block_count=None), ["gpt2.block_count"]),
                               (dict(gpt2__unheard_of=1), ["gpt2.unheard_of"]),
                               (dict(tokenizer__ggml__pre="unheard-of"), ["tokenizer.ggml.pre", "unheard-of"])):
            gguf_file.write_tales(self.file, **changes)
            for command in ("run", "inspect"):
                done = tenon(command, "--model", self.file)
                self.assertEqual(done.returncode, 1, done.stdout)
                for word in ["tales.gguf"] + words:
                    self.assertIn(word, done.stderr)

    def test_a_file_that_is_no_gguf(self):
        other = self.folder / "noise"
        other.write_bytes(b"x" * 1000)
        done = tenon("run", "--model", other)
        self.assertEqual(done.returncode, 1)
        self.assertIn("noise: is no GGUF file", done.stderr)
        done = tenon("run", "--model", TALES / "model.safetensors")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--model: model.safetensors is one file of a model; name its folder, --model DIR", done.stderr)
        done = tenon("run", "--model", "org/q8.gguf")
        self.assertEqual((done.returncode, done.stderr), (1, "tenon: q8.gguf: there is no such file\n"))


    def test_a_mixture_of_types(self):
        """Eleven types of blocks of 256 values in one file: each command takes it, and a copy in float32 has its answers."""
        gguf_file.write(self.file, gguf_file.tales_metadata(), gguf_file.mixed_tensors())
        copy = self.folder / "copy.gguf"
        quantized = lambda model, out, *options: self.assertEqual(
            tenon("quantize", "--model", model, *options, "--threads", 1, out).returncode, 0)
        quantized(self.file, copy, "--to", "gguf", "--weights", "float32")
        answers = self.run_with(self.file)
        self.assertNotEqual(answers, self.run_with(TALES))
        self.assertEqual(self.run_with(copy), answers)
        for weights in ("int8", "int4"):
            folders = [self.folder / (name + weights) for name in ("a", "b")]
            for model, folder in zip((self.file, copy), folders):
                quantized(model, folder, "--weights", weights)
            self.assertEqual(*(self.run_with(folder, "--weights", "float32") for folder in folders))
        done = tenon("inspect", "--model", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in gguf_file.BLOCKS:
            self.assertRegex(done.stdout, " [0-9]+ " + name + ",")
        self.assertIn("re-encoded   int4           relative error", done.stdout)
        done = tenon("generate", "--model", self.file, "Once", "--max-new-tokens", 3, "--threads", 1)
        self.assertEqual(done.returncode, 0, done.stderr)


class Parts(ProgramTest):
    """A model in several files, as llama-gguf-split writes it."""

    def setUp(self):
        super().setUp()
        self.first = gguf_file.write_parts(self.folder, "tales", gguf_file.tales_metadata(), gguf_file.tales_tensors(), 4)

    def answers(self, model, *options):
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=as_lines(REQUESTS))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json_lines(done.stdout)

    def test_answers_are_those_of_the_folder(self):
        wanted = self.answers(TALES)
        self.assertEqual(self.answers(self.first), wanted)
        self.assertEqual(self.answers(self.folder), wanted)  # its only model
        lines = as_lines([{"text": text} for text in TEXTS])
        self.assertEqual(tenon("tokens", "--model", self.first, stdin=lines).stdout, tenon("tokens", "--model", TALES, stdin=lines).stdout)

    def test_inspect_and_copies(self):
        done = tenon("inspect", "--model", self.first)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("76 in tales-00001-of-00004.gguf (4 shards), 76 F16", done.stdout)
        copy, folder = self.folder / "copy.gguf", self.folder / "out"
        for out, options in ((copy, ["--to", "gguf", "--weights", "float16"]), (folder, ["--weights", "float16"])):
            done = tenon("quantize", "--model", self.first, *options, "--threads", 1, out)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"split.", copy.read_bytes())
        self.assertEqual(self.answers(copy), self.answers(TALES))
        self.assertEqual(self.answers(folder, "--weights", "float32"), self.answers(TALES))

    def test_what_is_wrong_is_named(self):
        def refused(model):
            done = tenon("run", "--model", model)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            return done.stderr

        second = self.folder / gguf_file.part_name("tales", 2, 4)
        self.assertIn("tales-00002-of-00004.gguf: split.no: the file is part 2 of 4; name the first, tales-00001-of-00004.gguf", refused(second))
        second.rename(self.folder / "other.gguf")
        self.assertIn("tales-00002-of-00004.gguf: there is no such file", refused(self.first))
        self.assertIn("2 GGUF models; name the file of one of them: other.gguf, tales-00001-of-00004.gguf", refused(self.folder))


class WrittenGguf(ProgramTest):
    """Files of `tenon quantize --to gguf`."""

    def write(self, weights, *options, model=TALES, name="written.gguf"):
        return tenon("quantize", "--model", model, "--to", "gguf", "--weights", weights, "--threads", 1, *options, self.folder / name)

    def answers_of(self, model, *options):
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=as_lines(REQUESTS))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json_lines(done.stdout)

    def test_float_files_have_the_answers_of_the_folder(self):
        for weights in ("float32", "float16"):  # the default model is stored as float16
            done = self.write(weights, name=weights + ".gguf")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.answers_of(self.folder / (weights + ".gguf")), self.answers_of(TALES))
        lines = as_lines([{"text": text} for text in TEXTS])
        for options in ([], ["--special", "--parse-special"]):
            found, wanted = (tenon("tokens", "--model", model, *options, stdin=lines) for model in (self.folder / "float32.gguf", TALES))
            self.assertEqual(found.stdout, wanted.stdout)

    def test_blocks(self):
        for weights, size in (("q8_0", 34 / 32), ("Q4_0", 18 / 32)):
            done = self.write(weights, name=weights + ".gguf")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, "^" + weights.lower() + ": [0-9,]+ bytes of tensors, which were [0-9,]+\n$")
            inspected = tenon("inspect", "--model", self.folder / (weights + ".gguf"))
            self.assertEqual(inspected.returncode, 0, inspected.stderr)
            self.assertIn("25 " + weights.upper(), inspected.stdout)
            self.assertIn("re-encoded   float32        no error", inspected.stdout)
            self.assertIn("re-encoded   int4           " + ("no error" if weights == "Q4_0" else "relative error"), inspected.stdout)
            after, before = (int(each.replace(",", "")) for each in re.findall("[0-9][0-9,]+(?= bytes|$)", done.stdout.strip()))
            self.assertLess(after, before / 2 * size + 1.2e6)  # positions and vectors are float32
        self.answers_of(self.folder / "q8_0.gguf")

    def test_weights_that_are_widened_are_told(self):
        def told(*options):
            done = tenon("generate", "Once", "--max-new-tokens", 1, "--threads", 1, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        for weights, fits, how in (("q8_0", "int8", "rounds the weights anew"), ("q4_0", "int4", "keeps the codes of Q4_0 unchanged")):
            self.write(weights, name=weights + ".gguf")
            file = self.folder / (weights + ".gguf")
            self.assertRegex(told("--model", file), "^tenon: the file's weights are %s and are held as float32: [0-9.]+ MB of memory. "
                             "--weights %s takes [0-9.]+ MB and %s\n$" % (weights.upper(), fits, how))
            self.assertEqual(told("--model", file, "--weights", "float32"), "")
        self.write("float16", name="float16.gguf")
        self.assertEqual(told("--model", self.folder / "float16.gguf"), "")

    def test_a_file_from_a_file(self):
        self.write("float32", name="first.gguf")
        done = self.write("float32", model=self.folder / "first.gguf", name="second.gguf")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.answers_of(self.folder / "second.gguf"), self.answers_of(TALES))

    def test_wrong_uses(self):
        for weights in ("int8", "q5_k"):
            done = self.write(weights)
            self.assertEqual(done.returncode, 2)
            self.assertIn("q8_0, q4_0, float32, float16, bfloat16", done.stderr)
        self.write("q8_0")
        again = self.write("q8_0")
        self.assertEqual(again.returncode, 1)
        self.assertIn("written.gguf: exists already", again.stderr)

    def test_errors_of_any_model(self):
        self.assertNotIn("re-encoded", tenon("inspect", "--model", TALES).stdout)
        done = tenon("inspect", "--model", TALES, "--errors")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("re-encoded   bfloat16       relative error of a matrix 0.00", "re-encoded   int8           relative error",
                      "model.safetensors: "):
            self.assertIn(words, done.stdout)
        self.assertNotIn("16 rows", done.stdout)


class Experts(ProgramTest):
    def test_logits_are_those_of_transformers(self):
        """Mixtures of experts, written by gguf-py (tests/model/make_gguf_experts.py)."""
        files = sorted((ROOT / "tests" / "model" / "gguf_experts").glob("*.gguf"))
        self.assertGreaterEqual(len(files), 7)
        for path in files:
            expected = json.loads(path.with_suffix(".json").read_text())
            ids, wanted = expected["ids"], expected["logits"]
            line = {"input_ids": ids, "max_new_tokens": 1, "ignore_eos": True, "logits_at": [len(ids) - 1]}
            done = tenon("run", "--model", path, "--weights", "float32", "--threads", 1, stdin=as_lines([line]))
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json_lines(done.stdout)[0]["logits"][str(len(ids) - 1)]
            self.assertEqual(len(found), len(wanted))
            self.assertLessEqual(max(abs(a - b) for a, b in zip(found, wanted)), 1e-5 * max(map(abs, wanted)), path.name)

    def test_inspect_and_quantize(self):
        source = ROOT / "tests" / "model" / "gguf_experts" / "gpt-oss.gguf"
        done = tenon("inspect", "--model", source)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("gpt_oss: 2 layers of width 32", "gate and up apart, MXFP4: 2 matrices", "2 MXFP4", "unused       none"):
            self.assertIn(words, done.stdout)
        out = self.folder / "out"
        done = tenon("quantize", "--model", source, "--weights", "bfloat16", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = as_lines([{"input_ids": [3, 17, 40], "max_new_tokens": 6, "ignore_eos": True, "logits_hash": True}])
        answers = [tenon("run", "--model", model, "--threads", 1, "--weights", "float32", stdin=lines) for model in (source, out)]
        self.assertEqual([each.returncode for each in answers], [0, 0], [each.stderr for each in answers])


class SmolLM2(ProgramTest):
    """The answers of transformers, where scripts/get-model put the model."""

    def test_greedy_answers(self):
        cache = os.environ.get("XDG_CACHE_HOME")
        folder = pathlib.Path(cache) / "tenon" if cache else ROOT / "build" / "models"
        model = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
        if not model.exists():
            self.skipTest(f"{model} is not there: scripts/get-model smollm2")
        cases = json.loads((ROOT / "tests" / "golden" / "smollm2.json").read_text())["chat"]
        lines = as_lines([{"input_ids": each["input_ids"], "max_new_tokens": len(each["greedy_ids"])} for each in cases])
        done = tenon("run", "--model", model, stdin=lines)
        if done.returncode and "compiled" in done.stderr:
            self.skipTest("no engine for a Llama was compiled in")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each["output_ids"] for each in json_lines(done.stdout)], [each["greedy_ids"] for each in cases])


if __name__ == "__main__":
    support.main()
