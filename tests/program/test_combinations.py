"""Every weight format runs with every cache, element of keys and values, and attention. For one format, element and
attention, all caches give the same bits."""
import itertools
import json

import support
from support import TALES, ProgramTest, tenon

REQUESTS = "".join(json.dumps({"id": i, "prompt": prompt, "max_new_tokens": 6, "logits_hash": True}) + "\n"
                   for i, prompt in enumerate(["Once upon a time there was a king", "The"]))
CACHES = [["paged"], ["paged", "--block", "64"], ["contiguous"], ["window"], ["none"]]
FORMATS = ["float32", "bfloat16", "int8", "int4_act8", "nf4"]


class Combinations(ProgramTest):
    def answers(self, weights, kv, attention, cache):
        done = tenon("run", "--model", TALES, "--weights", weights, "--kv", kv, "--attention", attention, "--cache", *cache,
                     "--cache-tokens", "512", stdin=REQUESTS)
        if "not compiled in: " in done.stderr:
            self.skipTest("this build has fewer engines")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_elements_and_caches(self):
        different = set()
        for (weights, kv), attention in zip(itertools.product(FORMATS, ["float32", "bfloat16", "float16", "int8"]),
                                            itertools.cycle(["flash", "direct"])):
            of_caches = [self.answers(weights, kv, attention, cache) for cache in CACHES]
            self.assertEqual(set(of_caches), {of_caches[0]}, (weights, kv, attention))
            different.add(of_caches[0])
        self.assertEqual(len(different), 4 * len(FORMATS))  # the twin: another format or element has other bits

    def test_formats_of_tensor_cores_need_a_gpu(self):
        done = tenon("run", "--model", TALES, "--weights", "bfloat16_mma", stdin="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("compiled in", done.stderr)


if __name__ == "__main__":
    support.main()
