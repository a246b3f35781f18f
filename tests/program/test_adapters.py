"""Adapters on the command line: generate, run, chat-batch."""
import os
import pty
import subprocess

import support
from support import PROGRAM, TALES, ProgramTest, tenon

ADAPTERS = TALES / "adapters"
NAMES = ["weather", "shakespeare", "characters"]


def request(adapter=None, **more):
    return {"prompt": "The king said", "max_new_tokens": 8, "ignore_eos": True, "logits_hash": True, "adapter": adapter} | more


class Run(ProgramTest):
    def test_a_batch_of_adapters_answers_as_each_alone(self):
        sets = [None, *(str(ADAPTERS / n) for n in NAMES), {str(ADAPTERS / "weather"): 0.7, str(ADAPTERS / "shakespeare"): 0.5}]
        requests = [request(s, id=i) for i, s in enumerate(sets)]
        together, _ = self.answers(requests)
        self.assertEqual(len({a["logits_hash"] for a in together}), len(sets))
        for lora in ["segmented", "gathered", "looped"]:
            alone, _ = self.answers(requests, "--lora", lora, "--batch", 1)
            self.assertEqual(alone, together, lora)

    def test_what_is_refused_is_named_and_the_others_go_on(self):
        cases = [({}, "adapter"), (3, "adapter"), ("", "adapter"), ({"x": "a"}, "adapter.x"), ({"x": 1}, "adapter_config.json"),
                 ("nowhere", "adapter_config.json"), ({str(ADAPTERS / "weather"): 1e39}, "adapter")]
        answers, _ = self.answers([request(value) for value, _ in cases] + [request()], status=1)
        for (value, named), answer in zip(cases, answers):
            self.assertIn(named, answer["error"], value)
        self.assertEqual(len(answers[-1]["output_ids"]), 8)

    def test_merged_into_the_weights(self):
        weather = str(ADAPTERS / "weather")
        requests = [request(weather, logits_at=[2]), request(logits_at=[2]), request(weather, id=2)]
        added, _ = self.answers(requests)
        merged, _ = self.answers(requests, "--lora", "merged", status=1)
        self.assertIn("merged", merged[1]["error"])
        worst = max(abs(a - b) for a, b in zip(added[0]["logits"]["2"], merged[0]["logits"]["2"]))
        self.assertLess(worst, 1e-3)  # two orders of the same sums; the adapter itself changes logits far more
        change = max(abs(a - b) for a, b in zip(added[0]["logits"]["2"], added[1]["logits"]["2"]))
        self.assertGreater(change, 0.1)
        self.assertEqual(merged[0]["output_ids"], merged[2]["output_ids"])

    def test_requests_wait_for_a_slot(self):
        requests = [request(str(ADAPTERS / n)) for n in NAMES * 2] + [request({str(ADAPTERS / n): 1 for n in NAMES[:2]})]
        together, _ = self.answers(requests)
        one, _ = self.answers(requests, "--adapter-slots", 1, status=1)
        self.assertEqual(one[:-1], together[:-1])
        self.assertIn("adapters.count", one[-1]["error"])
        for batch in [1, 32]:
            two, _ = self.answers(requests, "--adapter-slots", 2, "--batch", batch)
            self.assertEqual(two, together)

    def test_none_adds_none(self):
        answers, _ = self.answers([request(str(ADAPTERS / "weather")), request()], "--lora", "none", status=1)
        self.assertIn("--lora none", answers[0]["error"])
        self.assertEqual(len(answers[1]["output_ids"]), 8)


class Generate(ProgramTest):
    def test_with_and_without(self):
        plain = tenon("generate", "The king said", "--max-new-tokens", 8)
        adapted = tenon("generate", "The king said", "--max-new-tokens", 8, "--adapter", ADAPTERS / "shakespeare")
        self.assertEqual((plain.returncode, adapted.returncode), (0, 0), adapted.stderr)
        self.assertNotEqual(plain.stdout, adapted.stdout)
        self.assertEqual(tenon("generate", "The king said", "--adapter", "").returncode, 2)
        refused = tenon("generate", "The king said", "--adapter", ADAPTERS)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("adapter_config.json", refused.stderr)


class ChatBatch(ProgramTest):
    def rows(self, *rows, status=0):
        done = tenon("chat-batch", "--max-new-tokens", 6, *(word for row in rows for word in ["--row", row]))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.splitlines()

    def test_a_line_a_row(self):
        lines = self.rows("The king", f"The king@{ADAPTERS / 'shakespeare'}", f"A name@{ADAPTERS / 'characters'}/")
        self.assertEqual([line.split("|")[0].strip() for line in lines], ["base", "shakespeare", "characters"])
        for line, prompt in zip(lines, ["The king", "The king", "A name"]):
            self.assertTrue(line.split("| ")[1].startswith(prompt), line)
        self.assertNotEqual(lines[0].split("|")[1], lines[1].split("|")[1])

    def test_an_at_sign_in_a_prompt(self):
        lines = self.rows("bob@example.com@", "bob@example.com", status=1)
        self.assertTrue(lines[0].startswith("base        | bob@example.com"), lines[0])
        self.assertIn("adapter_config.json", lines[1])

    def test_a_bad_row_fails_alone(self):
        lines = self.rows("The king@nowhere", "The king", status=1)
        self.assertIn("adapter_config.json", lines[0])
        self.assertGreater(len(lines[1]), len("nowhere | The king"))

    def test_wrong_rows_are_wrong_usage(self):
        for row in ["@x", "@", ""]:
            self.assertEqual(tenon("chat-batch", "--row", row).returncode, 2, row)
        self.assertEqual(tenon("chat-batch").returncode, 2)

    def test_on_a_terminal_rows_are_drawn_over(self):
        master, slave = pty.openpty()
        with subprocess.Popen([PROGRAM, "chat-batch", "--max-new-tokens", "4", "--row", "One", "--row", "Two"], stdout=slave) as process:
            os.close(slave)
            drawn = b""
            try:
                while piece := os.read(master, 4096):
                    drawn += piece
            except OSError:  # the terminal is closed
                pass
        os.close(master)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(drawn.count(b"\x1b[2A"), 2)


if __name__ == "__main__":
    support.main()
