"""tenon lab: the command line of the scheduler laboratory. tests/lab checks its numbers."""
import csv
import io
import json

import support
from support import ProgramTest, json_lines, tenon

FIELDS = ["scheduler", "requests", "refused", "prompt_tokens", "new_tokens", "steps", "preemptions", "prefix_hit_tokens", "seconds",
          "requests_per_second", "tokens_per_second", "occupancy", "busy", "queue_ms", "first_token_ms", "per_token_ms",
          "latency_ms", "jain"]
EXPERIMENT_6 = "".join('{"arrival_ms": 0, "prompt_tokens": 7, "new_tokens": %d}\n' % (10 if i % 8 else 100) for i in range(32))


class Lab(ProgramTest):
    def rows(self, *arguments):
        done = tenon("lab", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("requests of ", done.stderr)
        return json_lines(done.stdout)

    def trace(self, text):
        path = self.folder / "trace.jsonl"
        path.write_text(text)
        return path

    def test_json_has_a_row_a_scheduler(self):
        rows = self.rows("--scheduler", "fair,static,sequential,continuous", "--requests", 50, "--adapters", 4)
        self.assertEqual([row["scheduler"] for row in rows], ["fair", "static", "sequential", "continuous"])
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertEqual((row["requests"], row["refused"]), (50, 0))
            for field in ("queue_ms", "first_token_ms", "per_token_ms", "latency_ms"):
                self.assertEqual(list(row[field]), ["mean", "p50", "p95", "p99"])
                self.assertLessEqual(row[field]["p50"], row[field]["p95"])
                self.assertLessEqual(row[field]["p95"], row[field]["p99"])

    def test_experiment_6(self):
        path = self.trace(EXPERIMENT_6)
        steps = [row["steps"] for row in self.rows("--trace", path, "--batch", 8, "--scheduler", "static,continuous")]
        self.assertEqual(steps, [400, 130])
        self.assertEqual(self.rows("--trace", path, "--batch", 8, "--order", "longest")[0]["steps"], 100)

    def test_a_seed_gives_the_same_answer(self):
        once, again, other = (tenon("lab", "--json", "--adapters", 3, "--seed", seed).stdout for seed in (1, 1, 2))
        self.assertEqual(once, again)
        self.assertNotEqual(once, other)

    def test_what_was_written_replays_alike(self):
        written = self.folder / "out.jsonl"
        drawn = self.rows("--requests", 40, "--adapters", 3, "--prefix", 32, "--prompt", "~50", "--new", "7",
                          "--write-trace", written)
        self.assertEqual(len(written.read_text().splitlines()), 40)
        self.assertEqual(self.rows("--trace", written), drawn)
        self.assertEqual(drawn[0]["new_tokens"], 280)
        self.assertGreater(drawn[0]["prefix_hit_tokens"], 0)
        self.assertEqual(self.rows("--trace", written, "--no-prefix-reuse")[0]["prefix_hit_tokens"], 0)

    def test_costs_are_of_the_users_machine(self):
        path = self.trace('{"arrival_ms": 1000, "prompt_tokens": 4, "new_tokens": 2}\n')
        row, = self.rows("--trace", path, "--cost-us", "1000,10,1")
        self.assertAlmostEqual(row["latency_ms"]["p50"], 1.044 + 1.015, places=9)
        self.assertAlmostEqual(row["seconds"], 1.002059, places=9)

    def test_table_and_picture(self):
        done = tenon("lab", "--trace", self.trace(EXPERIMENT_6), "--batch", 8, "--scheduler", "static,fair", "--draw",
                     "--cost-us", "1000,0,0")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.split("\n")
        self.assertEqual(lines[0].split(), ["static", "fair"])
        self.assertIn(["steps", "400", "130"], [line.split() for line in lines])
        self.assertIn("A" * 25 + "I" * 25 + "Q" * 25 + "Y" * 25, lines)

    def test_slots_for_plotting(self):
        path = self.folder / "slots.csv"
        self.rows("--requests", 30, "--scheduler", "continuous,fair", "--slots", path)
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
        self.assertEqual(list(rows[0]), ["scheduler", "slot", "request", "adapter", "begin_ms", "end_ms", "first_step", "last_step"])
        for scheduler in ("continuous", "fair"):
            mine = [row for row in rows if row["scheduler"] == scheduler]
            self.assertEqual({int(row["request"]) for row in mine}, set(range(30)))
            self.assertTrue(all(float(row["begin_ms"]) < float(row["end_ms"]) for row in mine))

    def test_small_caches_preempt_or_refuse(self):
        path = self.trace("".join('{"arrival_ms": 0, "prompt_tokens": 60, "new_tokens": %d}\n' % n for n in [50] * 8 + [90]))
        row, = self.rows("--trace", path, "--cache-tokens", 128)
        self.assertEqual((row["requests"], row["refused"]), (8, 1))
        row, = self.rows("--trace", path, "--cache-tokens", 320)
        self.assertEqual((row["requests"], row["refused"]), (9, 0))
        self.assertGreater(row["preemptions"], 0)

    def test_a_bad_trace_is_1_and_names_line_and_field(self):
        fine = json.dumps({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1})
        for bad, what in [('{"arrival_ms": 0, "prompt_tokens": 1}', "new_tokens: is missing"),
                          (fine.replace("}", ', "colour": 1}'), "colour: is an unknown field"),
                          (fine.replace("1}", "-1}"), "new_tokens: must be an integer from 1"), ("nonsense", "not valid JSON")]:
            done = tenon("lab", "--trace", self.trace(fine + "\n" + bad + "\n"))
            self.assertEqual((done.returncode, done.stdout), (1, ""), bad)
            self.assertIn("trace.jsonl line 2: ", done.stderr)
            self.assertIn(what, done.stderr)
            self.assertNotIn(str(self.folder), done.stderr)
        self.assertEqual(tenon("lab", "--trace", self.folder / "nowhere").returncode, 1)
        self.assertEqual(tenon("lab", "--slots", self.folder / "no" / "such.csv").returncode, 1)

    def test_wrong_usage_is_2(self):
        for arguments in [["--scheduler", "random"], ["--scheduler", "fair,random"], ["--rate", "-1"], ["--prompt", "0"],
                          ["--prompt", "9-3"], ["--prompt", "many"], ["--new", "~"], ["--new", "3-"], ["--zipf", "x"],
                          ["--trace", self.trace(""), "--rate", "3"], ["--trace", ""], ["--seed", "-1"], ["--batch", "0"],
                          ["--order", "best"], ["--cost-us", "1,2"], ["--cost-us", "1,2,-3"], ["--model", "x"]]:
            done = tenon("lab", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr, arguments)

    def test_an_empty_trace_is_an_empty_report(self):
        row, = self.rows("--trace", self.trace("\n"))
        self.assertEqual((row["requests"], row["steps"], row["jain"]), (0, 0, 1))


if __name__ == "__main__":
    support.main()
