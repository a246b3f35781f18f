"""Every family against the answers of transformers (tests/golden), with every compiled cache and attention."""
import json
import pathlib
import shutil
import tempfile

import support
from support import ProgramTest, as_lines, json_lines, tenon

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CASES = sorted(p.parent.name for p in GOLDEN.glob("*/expected.json"))
CACHES = ["paged", "contiguous", "window"]
# The reference's logits are float32 sums in another order, rounded to five digits. A wrong position, slope or mask
# changes them by a tenth or more.
TOLERANCE = 1e-4
# num_parameters() of transformers
PARAMETERS = {"bloom_6_heads": 59664, "cohere_norms": 14928, "ernie45": 17920, "exaone4": 17920, "falcon_rw": 59568, "gpt_neo": 25752,
              "gpt_oss": 43856, "gptbigcode_mha": 30496, "gptbigcode_relu": 17188, "granite4_rope": 15936, "llama_biases_tied": 16352,
              "llama_head_dim": 20960, "mistral_window7": 17888, "mixtral_window7": 41184, "olmoe_normalised": 56768, "opt_350m": 19604,
              "qwen2": 16064, "qwen3_moe_sparse": 25384, "ministral": 17888, "olmo3": 17984, "cohere2": 15872, "glm": 21152, "glm4": 18016,
              "nemotron": 18960, "arcee": 15472, "helium": 18016, "hunyuan": 19312, "ministral3": 20960,
              "qwen2_moe": 28192, "qwen2_moe_window": 38240, "ernie45_moe": 47897}


def requests_of(expected):
    for i, ref in enumerate(expected["base"]):
        yield {"id": str(i), "input_ids": ref["input_ids"], "max_new_tokens": len(ref["greedy_ids"]), "ignore_eos": True,
               "logits_at": [int(p) for p in ref["logits_at"]], "nll": ref["nll_mean"] is not None, "top_logprobs": 2}


def run(case, *options):
    expected = json.loads((GOLDEN / case / "expected.json").read_text())
    done = tenon("run", "--model", GOLDEN / case, "--threads", 1, *options, stdin=as_lines(requests_of(expected)))
    if done.returncode:
        raise AssertionError(done.stderr)
    return expected["base"], json_lines(done.stdout)


class Families(ProgramTest):
    def check(self, ref, answer, where):
        self.assertNotIn("error", answer, where)
        for position, wanted in ref["logits_at"].items():
            got = answer["logits"][position]
            worst = max(abs(g - w) for g, w in zip(got, wanted, strict=True))
            self.assertLess(worst, TOLERANCE * max(1, max(map(abs, wanted))), f"{where} logits at {position}")
        if ref["nll_mean"] is not None:
            self.assertAlmostEqual(answer["nll_mean"], ref["nll_mean"], delta=TOLERANCE * max(1, ref["nll_mean"]), msg=where)
        for got, wanted, margin in zip(answer["output_ids"], ref["greedy_ids"], ref["greedy_margins"], strict=True):
            if got != wanted:
                self.assertLess(margin, 5 * TOLERANCE, where)
                break

    def test_answers_are_the_reference_s(self):
        self.assertGreaterEqual(len(CASES), 10)
        for case in CASES:
            for attention in ["flash", "direct"]:
                alike = None
                for cache in CACHES:
                    where = f"{case} --cache {cache} --attention {attention}"
                    base, answers = run(case, "--cache", cache, "--attention", attention)
                    for ref, answer in zip(base, answers, strict=True):
                        self.check(ref, answer, where)
                    alike = alike or answers
                    self.assertEqual(answers, alike, where)  # bit for bit, with every cache

    def test_parameters_are_counted_as_in_transformers(self):
        for case, count in PARAMETERS.items():
            done = tenon("inspect", "--model", GOLDEN / case)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"parameters   {count:,}\n", done.stdout, case)

    # Reading a text in chunks, or again after a preemption, changes no answer. Dynamic rotary positions depend on the
    # text's length, windows on the kept tokens.
    def test_chunks_and_preemptions_change_nothing(self):
        for case in ["llama_dynamic", "llama_llama3", "mistral_window7", "bloom_6_heads", "gptbigcode_mha"]:
            for cache in CACHES:
                _, alone = run(case, "--cache", cache, "--batch", 1)
                _, chunked = run(case, "--cache", cache, "--token-budget", 5)
                _, tight = run(case, "--cache", cache, "--cache-tokens", 96, "--token-budget", 11)
                self.assertEqual(alone, chunked, f"{case} {cache}")
                self.assertEqual(alone, tight, f"{case} {cache}")

    def test_longer_than_trained_where_positions_are_computed(self):
        line = as_lines([{"id": "a", "input_ids": [5] * 30, "max_new_tokens": 300, "ignore_eos": True}])
        for case, status in [("bloom_6_heads", None), ("llama_llama3", None), ("gptbigcode_mha", "positions")]:
            done = tenon("run", "--model", GOLDEN / case, "--positions", 400, "--threads", 1, stdin=line)
            if status is None:
                self.assertEqual(len(json_lines(done.stdout)[0]["output_ids"]), 300, done.stderr)
            else:
                self.assertIn(status, done.stderr)
                self.assertNotEqual(done.returncode, 0)
        done = tenon("run", "--model", GOLDEN / "llama_llama3", "--threads", 1, stdin=line)
        self.assertIn("the model has 128", json_lines(done.stdout)[0]["error"])

    def test_inspect_says_what_a_family_is(self):
        for case, words in [("llama_dynamic", ["llama: 2 layers", "gated MLP", "beyond 32 (dynamic)", "keys and values in 2 heads"]),
                            ("mistral_window7", ["mistral", "window of 7", "rotary of theta 10000"]),
                            ("qwen2_moe", ["gated MLP of 40", "5 experts of 20 in 1 layer, of which a token uses 2, beside a shared expert of 44"]),
                            ("lfm2_moe", ["5 experts of 20 in 2 layers, of which a token uses 2\n"]),
                            ("bloom_6_heads", ["bloom", "by ALiBi", "6 heads of 8"]),
                            ("gptbigcode_relu", ["gpt_bigcode", "relu", "positions learned", "keys and values in 1 head\n"])]:
            done = tenon("inspect", "--model", GOLDEN / case)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in words:
                self.assertIn(word, done.stdout)
            self.assertIn("unused       none", done.stdout)

    def test_another_family_is_refused_with_the_list(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(GOLDEN / "qwen2", folder, dirs_exist_ok=True)
            config = json.loads((GOLDEN / "qwen2" / "config.json").read_text())
            (pathlib.Path(folder) / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
            done = tenon("inspect", "--model", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn('config.json: model_type: "mamba" is not supported; supported: gpt2, gpt_bigcode, llama, mistral, bloom', done.stderr)


if __name__ == "__main__":
    support.main()
