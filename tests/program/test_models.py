"""tenon inspect and tenon check: the contents of a model folder, and whether it is valid."""
import json
import re

import support
from support import TALES, ProgramTest, tenon

FILES = ["model.safetensors", "vocab.json", "merges.txt"]


class Inspect(ProgramTest):
    def test_the_default_model(self):
        done = tenon("inspect", "--model", TALES)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in ["gpt2: 6 layers of width 256, 4 heads of 64", "parameters   6,049,792", "float32        24,199,168 bytes",
                     "76 in model.safetensors, 76 F16", "unused       none", "4,096 ids", "adapters     3\n", "shakespeare: rank 8, "]:
            self.assertIn(text, done.stdout)

    def test_all_tensors(self):
        short, long = tenon("inspect", "--model", TALES).stdout, tenon("inspect", "--model", TALES, "--tensors").stdout
        self.assertEqual(long.count("transformer."), 76)
        self.assertIn("transformer.wte.weight  [4096, 256]  F16", long)
        self.assertIn("--tensors lists them", short)

    def test_the_memory_that_it_takes(self):
        self.assertNotIn("\nmemory ", tenon("inspect", "--model", TALES).stdout)
        done = tenon("inspect", "--model", TALES, "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"\nmemory       float32 on cpu: weights ([\d,]+) bytes, cache ([\d,]+) bytes; at most ([\d,]+) bytes resident while it loaded "
                          r"and wrote 4 tokens\n$", done.stdout)
        self.assertTrue(found, done.stdout)
        weights, cache, peak = (int(number.replace(",", "")) for number in found.groups())
        self.assertIn(f"float32        {weights:,} bytes", done.stdout)
        self.assertGreater(peak, weights)
        self.assertLess(peak, 2 * weights + cache)  # rows are read in blocks: there is no second copy of the weights

    def test_memory_of_a_device_that_is_not_there(self):
        done = tenon("inspect", "--model", TALES, "--device", "cuda")
        if done.returncode == 0:
            self.assertIn(" bytes of the device while ", done.stdout)
        else:
            self.assertRegex(done.stderr, "(?i)cuda")
        self.assertEqual(tenon("inspect", "--model", TALES, "--weights", "float32").returncode, 2)

    def test_without_tokenizer_and_adapters(self):
        done = tenon("inspect", "--model", self.model_of("config.json", "model.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tokenizer    none", done.stdout)
        self.assertIn("adapters     none", done.stdout)

    def test_adapters_are_described(self):
        text = tenon("inspect", "--model", TALES).stdout
        self.assertIn("adapters     3\n", text)
        self.assertRegex(text, r"characters: rank 12, 4, scale 2, 4, 12 of 24 linears, F\d+, [\d,]+ bytes; fields without effect: ")

    def test_fields_without_effect_are_listed(self):
        done = tenon("inspect", "--model", self.model_of(*FILES, config={"use_cache": True, "my_field": [1]}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\nignored      fields without an effect on the output\n             config.json: .*my_field.*use_cache")
        self.assertNotIn("n_layer", done.stdout.split("ignored ")[1])

    def test_a_name_in_the_hub_cache(self):
        repository = self.folder / "hub" / "models--org--tales"
        snapshot = repository / "snapshots" / "0123abcd"
        for each in (snapshot, repository / "refs"):
            each.mkdir(parents=True)
        (repository / "refs" / "main").write_text("0123abcd")
        for path in TALES.iterdir():
            (snapshot / path.name).symlink_to(path)
        named = {"HF_HOME": str(self.folder), "HF_HUB_CACHE": ""}
        done = tenon("inspect", "--model", "org/tales", env=named)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("parameters   6,049,792", done.stdout)
        self.assertIn("adapters     3\n", done.stdout)
        done = tenon("tokens", "--model", "org/tales", stdin='{"text": "a"}\n', env={"HF_HUB_CACHE": str(self.folder / "hub")})
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, words in (("org/other", ["models--org--other", "hf download org/other"]), ("no-such-folder", ["models--no-such-folder"])):
            done = tenon("inspect", "--model", name, env=named)
            self.assertEqual(done.returncode, 1)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_tensors_without_use_are_listed(self):
        done = tenon("inspect", "--model", self.model_of(*FILES, config={"n_layer": 5}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("12 tensors that the model has no use for", done.stdout)
        self.assertIn("h.5.mlp.c_fc.weight", done.stdout)

    # report: gpt2_eos_outside_vocab
    def test_ids_outside_the_vocabulary_are_dropped_and_listed(self):
        model = self.model_of("model.safetensors", "vocab.json", "merges.txt", config={"bos_token_id": 50256, "eos_token_id": [50256, 7]})
        done = tenon("inspect", "--model", model)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("begin of text none, end of text 7\n", done.stdout)
        self.assertIn("outside the vocabulary, and dropped: config.json: bos_token_id 50256, config.json: eos_token_id 50256", done.stdout)
        self.assertEqual(tenon("check", "--model", model).returncode, 0)

    def test_what_an_adapter_has_without_effect_is_listed(self):
        model = self.model_of(*FILES, "config.json")
        adapter = model / "adapters" / "weather"
        adapter.mkdir(parents=True)
        (adapter / "adapter_model.safetensors").symlink_to(TALES / "adapters" / "weather" / "adapter_model.safetensors")
        config = json.loads((TALES / "adapters" / "weather" / "adapter_config.json").read_text())
        config |= {"target_modules": [*config["target_modules"], "q_proj"], "lorap_emb_lr": 1e-6}
        (adapter / "adapter_config.json").write_text(json.dumps(config))
        text = tenon("inspect", "--model", model).stdout
        self.assertIn("; unknown fields, ignored: lorap_emb_lr; targets that the model lacks: q_proj\n", text)

    def test_refusals_name_file_and_field(self):
        for change, named in [({"n_head": 5}, "n_head"), ({"vocab_size": 4097}, "wte.weight"), ({"model_type": "mamba"}, "model_type"),
                              ({"n_layer": 7}, "h.6."), ({"n_layer": 2**31 - 1}, "n_layer")]:
            done = tenon("inspect", "--model", self.model_of(config=change))
            self.assertEqual(done.returncode, 1, change)
            (self.folder / "model" / "config.json").unlink()
        for change, named in [({"n_head": 5}, "config.json: n_head"), ({"vocab_size": 4097}, "wte.weight"),
                              ({"model_type": "mamba"}, "config.json: model_type"), ({"n_layer": 7}, "h.6.")]:
            model = self.model_of(*[f for f in FILES if not (self.folder / "model" / f).exists()], config=change)
            for command in ["inspect", "check"]:
                done = tenon(command, "--model", model)
                self.assertEqual((done.returncode, done.stdout), (1, ""), change)
                self.assertIn(named, done.stderr)
                self.assertNotIn(str(self.folder), done.stderr)


class Check(ProgramTest):
    def test_a_sound_model(self):
        done = tenon("check", "--model", TALES, "--threads", 1)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("generated 4 tokens", done.stdout)

    def test_a_tokenizer_is_needed(self):
        done = tenon("check", "--model", self.model_of("config.json", "model.safetensors"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("vocab.json", done.stderr)

    def test_an_adapter_by_name_below_a_root(self):
        def check(name):
            return tenon("check", "--model", TALES, "--adapter-root", TALES / "adapters", "--adapter-id", name)

        self.assertEqual(check("weather").returncode, 0)
        for name in ["nobody", "../adapters/weather", "/etc", "..", "weather/", "a b", "weather\n", "x" * 200, ""]:
            done = check(name)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("adapter", done.stderr)
            self.assertNotIn(str(TALES), done.stderr)

    def test_a_link_out_of_the_root(self):
        root = self.folder / "root"
        (root / "leaves").mkdir(parents=True)
        (root / "real" / "one").mkdir(parents=True)
        for file in (TALES / "adapters" / "weather").iterdir():
            (root / "leaves" / file.name).symlink_to(file)
            (root / "real" / "one" / file.name).write_bytes(file.read_bytes())
        (root / "stays").symlink_to(root / "real" / "one")
        done = tenon("check", "--model", TALES, "--adapter-root", root, "--adapter-id", "leaves")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("outside the adapter root", done.stderr)
        for name in ["real/one", "stays"]:
            done = tenon("check", "--model", TALES, "--adapter-root", root, "--adapter-id", name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    support.main()
