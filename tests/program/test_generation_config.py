"""generation_config.json: the ends of texts, and with --generation-config the defaults of sampling."""
import json

import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon

FILES = ["model.safetensors", "vocab.json", "merges.txt", "tokenizer_config.json"]
PROMPT = {"prompt": "The king said", "max_new_tokens": 8}
FIELDS = {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "repetition_penalty": 1.2}


class GenerationConfig(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.model_of(*[name for name in FILES if (TALES / name).exists()], config={"eos_token_id": None})

    def write(self, config):
        (self.model / "generation_config.json").write_text(json.dumps(config))

    def run_all(self, requests, *options, status=0):
        done = tenon("run", "--model", self.model, "--threads", 1, *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, status, done.stderr)
        return json_lines(done.stdout) if status == 0 else done.stderr

    # report: generation_config_eos
    def test_its_ids_end_a_text(self):
        whole = self.run_all([PROMPT])[0]
        self.assertEqual((len(whole["output_ids"]), whole["finish_reason"]), (8, "length"))
        third = whole["output_ids"][2]
        end = whole["output_ids"].index(third) + 1
        for ids in [third, [4095, third], [5, third, 10**6]]:
            self.write({"eos_token_id": ids})
            answer = self.run_all([PROMPT])[0]
            self.assertEqual((answer["output_ids"], answer["finish_reason"]), (whole["output_ids"][:end], "stop"))
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps(config | {"eos_token_id": third}))
        for silent in [{}, {"eos_token_id": None}]:  # config.json alone counts if generation_config.json has no ids
            self.write(silent)
            self.assertEqual(self.run_all([PROMPT])[0]["finish_reason"], "length")
        (self.model / "generation_config.json").unlink()
        self.assertEqual(self.run_all([PROMPT])[0]["finish_reason"], "stop")

    def test_its_sampling_counts_with_the_flag_only(self):
        self.write({"do_sample": True, **FIELDS})
        plain = self.run_all([PROMPT])[0]
        given, other = self.run_all([PROMPT | FIELDS, PROMPT | FIELDS | {"top_k": 3, "temperature": 2}])
        self.assertNotEqual(given["output_ids"], plain["output_ids"])
        flagged = self.run_all([PROMPT, PROMPT | {"top_k": 3, "temperature": 2}, PROMPT | {"temperature": 0, "repetition_penalty": 1}],
                               "--generation-config")
        self.assertEqual([a["output_ids"] for a in flagged], [a["output_ids"] for a in [given, other, plain]])

    def test_generate_takes_it_too(self):
        self.write({"do_sample": True, **FIELDS})
        words = [word for name, value in FIELDS.items() for word in ["--" + name.replace("_", "-"), value]]
        common = ["generate", "The king said", "--model", self.model, "--max-new-tokens", 8, "--threads", 1]
        plain, given = tenon(*common), tenon(*common, *words)
        self.assertNotEqual(plain.stdout, given.stdout)
        self.assertEqual(tenon(*common, "--generation-config").stdout, given.stdout)
        self.assertEqual(tenon(*common, "--generation-config", "--temperature", 0, "--repetition-penalty", 1).stdout, plain.stdout)

    def test_what_it_cannot_do_is_refused_with_the_flag_only(self):
        self.write({"do_sample": True, "num_beams": 4})
        self.assertEqual(len(self.run_all([PROMPT])), 1)
        self.assertIn("generation_config.json: num_beams", self.run_all([PROMPT], "--generation-config", status=1))
        (self.model / "generation_config.json").unlink()
        self.assertIn("generation_config.json: does not exist", self.run_all([PROMPT], "--generation-config", status=1))


if __name__ == "__main__":
    support.main()
