"""Help texts, wrong usage and exit statuses."""
import support
from support import TALES, ProgramTest, tenon

SUBCOMMANDS = ["generate", "chat-batch", "run", "tokens", "inspect", "quantize", "merge", "check", "bench", "lab"]
# No build has all of these values.
NEVER_COMPILED = ["--weights", "int4_act8", "--cache", "window", "--kv", "bfloat16", "--attention", "direct",
                  "--device", "cuda"]


class Usage(ProgramTest):
    def test_help_of_every_subcommand(self):
        for arguments in [["--help"]] + [[name, "--help"] for name in SUBCOMMANDS]:
            done = tenon(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
            self.assertIn("Usage: tenon", done.stdout)
        everything = tenon("--help").stdout
        for name in SUBCOMMANDS:
            self.assertIn("\n  " + name, everything)

    def test_help_names_every_default(self):
        text = tenon("run", "--help").stdout
        for default in ["--weights WORD (float32)", "--cache WORD (paged)", "--block N (16)", "--kv WORD (float32)",
                        "--attention WORD (flash)", "--scheduler WORD (continuous)", "--lora WORD (segmented)",
                        "--device WORD (cpu)", "--threads N (all cores)", "--batch N (32)", "--token-budget N (512)",
                        "--cache-tokens N", "--seed N (0)"]:
            self.assertIn(default, text)

    def test_version(self):
        self.assertRegex(tenon("--version").stdout, r"^tenon \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_2(self):
        for arguments in [[], ["nonsense"], ["generate", "x", "y"], ["generate", "x", "--batch", "0"],
                          ["generate", "x", "--batch", "many"], ["run", "--weights", "float31"],
                          ["run", "--block", "17"], ["run", "--seed", "-1"], ["run", "--seed", 2**64], ["run", "--batch", 2**40], ["run", "--batch", "1.5"],
                          ["run", "--threads", "0"],
                          ["run", "--model", ""], ["check", "--adapter-id", "a"], ["bench", "--case", "encode"],
                          ["bench", "--random", "gpt3"], ["bench", "--random", "gpt2", "--model", TALES],
                          ["generate", "x", "--logit-bias", "5"], ["tokens", "--batch", "3"]]:
            done = tenon(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr, arguments)

    def test_a_combination_that_was_not_compiled_in(self):
        done = tenon("run", "--model", TALES, *NEVER_COMPILED)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("not compiled in: ", done.stderr)
        self.assertRegex(done.stderr, r"--weights float32 --cache paged\S* --block 16\S* --kv float32\S* --attention flash\S* --device cpu")

    def test_merging_needs_an_adapter(self):
        done = tenon("chat-batch", "--model", TALES, "--row", "x", "--lora", "merged")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--lora merged", done.stderr)

    def test_a_gpu_answers_as_the_cpu_does_or_is_refused_by_name(self):
        requests = [{"id": 1, "prompt": "Once upon a time", "max_new_tokens": 8}]
        done = tenon("run", "--model", TALES, "--device", "cuda", stdin="")
        if "not compiled in: --device cuda" in done.stderr:
            self.assertEqual(done.returncode, 2)
            self.skipTest("no engine for --device cuda was compiled in")
        if done.returncode != 0:
            self.assertIn("device: there is no CUDA device", done.stderr)
            self.skipTest("there is no CUDA device on this machine")
        self.assertEqual(self.answers(requests, "--device", "cuda")[0], self.answers(requests)[0])

    def test_every_scheduler_gives_the_same_answers(self):
        requests = [{"id": i, "prompt": "Once upon a time", "max_new_tokens": 3 + i} for i in range(4)]
        first, _ = self.answers(requests)
        for scheduler in ["continuous", "static", "sequential", "fair"]:
            self.assertEqual(self.answers(requests, "--scheduler", scheduler, "--batch", 2)[0], first)

    def test_a_head_that_looks_at_8_bits_first_gives_the_same_answers(self):
        requests = [{"id": i, "prompt": prompt, "max_new_tokens": 12}
                    for i, prompt in enumerate(["Once upon a time", "The king", "A", "It was a dark night, and the"])]
        done = tenon("run", "--model", TALES, "--head", "int8_exact", stdin="")
        if done.returncode != 0:
            self.skipTest("no engine for --head int8_exact was compiled in")
        for weights in ["float32", "bfloat16", "int8"]:
            behind = ["--weights", weights, "--head", "int8_exact"]
            self.assertEqual(self.answers(requests, *behind)[0], self.answers(requests, "--weights", weights)[0])

    def test_that_head_is_not_of_formats_that_round_activations_or_have_groups(self):
        for weights in ["int8_act8", "bfloat16_dot", "int4"]:
            done = tenon("run", "--model", TALES, "--weights", weights, "--head", "int8_exact")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("not compiled in: ", done.stderr)

    def test_inspect_takes_its_folder_without_a_flag(self):
        self.assertEqual(tenon("inspect", TALES).stdout, tenon("inspect", "--model", TALES).stdout)
        self.assertEqual(tenon("inspect", TALES, "--model", TALES).returncode, 2)

    def test_help_tells_what_is_required(self):
        for command, words in (("merge", ["--adapter DIR (required)", "--out DIR (required)"]), ("quantize", ["--weights WORD (required)"])):
            for each in words:
                self.assertIn(each, tenon(command, "--help").stdout)

    def test_missing_model_is_1_and_tells_no_path(self):
        done = tenon("generate", "x", "--model", self.folder / "nowhere")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("nowhere", done.stderr)
        self.assertNotIn(str(self.folder), done.stderr)


if __name__ == "__main__":
    support.main()
