"""tenon bench: the form of its tables. Its figures need a quiet machine and are not tested here."""
import support
from support import TALES, ProgramTest, json_lines, tenon

FIELDS = ["case", "weights", "device", "threads", "batch", "tok_s", "ms_per_step", "bytes_per_step", "gb_s", "ceiling_gb_s", "peak_gops"]


class Bench(ProgramTest):
    def test_json_rows(self):
        done = tenon("bench", "--model", TALES, "--threads", 1, "--batch", "1,3", "--new", 8, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = json_lines(done.stdout)
        self.assertEqual([(r["case"], r["batch"]) for r in rows], [("decode", 1), ("decode", 3), ("prefill", 1)])
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertEqual((row["weights"], row["device"], row["threads"]), ("float32", "cpu", 1))
            for field in FIELDS[4:]:
                self.assertIsInstance(row[field], (int, float))
                self.assertGreater(row[field], 0)
            self.assertAlmostEqual(row["gb_s"], row["bytes_per_step"] / row["ms_per_step"] * 1e-6, delta=1e-4 * row["gb_s"])
        # All weights except the table of positions, and keys and values of 11 positions on average.
        self.assertAlmostEqual(rows[0]["bytes_per_step"], 24_199_168 - 1024 * 1024 + 12_288 * 12.0, delta=30_000)

    def test_table(self):
        done = tenon("bench", "--model", TALES, "--threads", 1, "--case", "prefill")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ceilings of this run: read ", done.stdout)
        self.assertIn(" of FMA\n", done.stdout)  # float32 weights are multiplied with FMA
        self.assertEqual(done.stdout.count("\nprefill"), 1)
        self.assertNotIn("\ndecode", done.stdout)


if __name__ == "__main__":
    support.main()
