"""Models that other libraries quantised: inspect names the method, run and quantize decode them."""
import json
import pathlib

import support
from support import ProgramTest, as_lines, json_lines, tenon

CASES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "quantized_cases"


class Quantized(ProgramTest):
    def test_inspect_names_the_variant(self):
        for name, words in (("gptq_g64_act_order", ["stored as    gptq, 4 bits, groups of 64, in order of activations: 7 matrices",
                                                    "runs in      float32", "unused       none", "7 quantised"]),
                            ("mxfp4", ["stored as    mxfp4, blocks of 32: 2 matrices", "ignored",
                                       "quantization_config.modules_to_not_convert"]),
                            ("bnb_nf4_double", ["stored as    bitsandbytes, nf4, blocks of 64, double quantisation: 7 matrices"]),
                            ("ct_w8a8", ["compressed-tensors, int8, a scale per output; activations stay in float32: 7 matrices"])):
            done = tenon("inspect", "--model", CASES / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            for each in words:
                self.assertIn(each, done.stdout)

    def test_logits_are_those_of_the_reference(self):
        """The reference is transformers with the weights that the library decodes."""
        folders = sorted(CASES.iterdir())
        self.assertGreaterEqual(len(folders), 20)
        for folder in folders:
            expected = json.loads((folder / "expected.json").read_text())
            ids, wanted = expected["ids"], expected["logits"]
            request = as_lines([{"id": 1, "input_ids": ids, "max_new_tokens": 1, "ignore_eos": True, "logits_at": [len(ids) - 1]}])
            done = tenon("run", "--model", folder, "--weights", "float32", "--threads", 1, stdin=request)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json_lines(done.stdout)[0]["logits"][str(len(ids) - 1)]
            apart = max(abs(a - b) for a, b in zip(found, wanted))
            self.assertEqual(len(found), len(wanted))
            self.assertLessEqual(apart, 1e-5 * max(map(abs, wanted)), folder.name)

    def test_refusals_name_the_field(self):
        model = self.folder / "model"
        model.mkdir()
        config = json.loads((CASES / "gptq_g32" / "config.json").read_text())
        config["quantization_config"]["bits"] = 5
        (model / "config.json").write_text(json.dumps(config))
        (model / "model.safetensors").symlink_to(CASES / "gptq_g32" / "model.safetensors")
        for command in ("inspect", "run"):
            done = tenon(command, "--model", model)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("config.json: quantization_config.bits: 5 is not supported: 2, 3, 4 and 8 are", done.stderr)

    def test_a_written_copy_answers_as_the_source_in_that_format(self):
        requests = as_lines([{"id": 1, "input_ids": [3, 17, 40], "max_new_tokens": 6, "ignore_eos": True, "logits_hash": True}])
        out = self.folder / "out"
        source = CASES / "awq_g32"
        done = tenon("quantize", "--model", source, "--weights", "int8", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [tenon("run", "--model", model, "--weights", "int8", "--threads", 1, stdin=requests) for model in (source, out)]
        self.assertEqual([each.returncode for each in answers], [0, 0], [each.stderr for each in answers])
        self.assertEqual(*(json_lines(each.stdout) for each in answers))


if __name__ == "__main__":
    support.main()
