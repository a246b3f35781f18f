"""scripts/gpu-check and bench/compare --gpu --quick to their last lines, with stand-ins for programs, device and torch."""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TENON = """#!/bin/sh
if [ "$1" = inspect ]; then
  case "$*" in *int4*) most=500,000,000;; *) most=150,000,000;; esac
  echo "memory       float32 on cpu: weights 50,000,000 bytes, cache 60,000,000 bytes; at most $most bytes resident while it wrote"
  exit
fi
case "$*" in *bfloat16*) answer=2;; *) answer=1;; esac
for id in greedy drawn adapted; do echo "{\\"id\\": \\"$id\\", \\"output_ids\\": [$answer]}"; done
"""
PROGRAMS = {"tests/test_passes_cuda": "#!/bin/sh\necho passed\n", "tests/test_fails_cuda": "#!/bin/sh\necho 'one is not two'; exit 3\n",
            "tests/test_skips_cuda": "#!/bin/sh\necho 'skipped: there is no CUDA device'; exit 77\n",
            "tests/test_hangs_cuda": "#!/bin/sh\nsleep 600 & wait\n", "bench/bench_peers_tenon_gpu_peer": "#!/bin/sh\n"}


class GpuCheck(unittest.TestCase):
    def check(self, programs, *arguments, dry_run=True):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(os.path.join(folder, "programs.tar.xz"), "w:xz") as tar:
                for name, text in programs.items():
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = len(text), 0o755
                    tar.addfile(info, io.BytesIO(text.encode()))
            command = [sys.executable, os.path.join(ROOT, "scripts", "gpu-check"), "--prebuilt", folder, "--out", os.path.join(folder, "out")]
            # Without python3's packages nothing has torch, and without nvidia-smi there is no device.
            ended = subprocess.run([*command, *(["--dry-run"] if dry_run else []), *arguments], capture_output=True, text=True, timeout=100,
                                   env=os.environ | {"PYTHONNOUSERSITE": "1", "PATH": "/usr/bin:/bin"})
            with open(os.path.join(folder, "out", "gpu-check.jsonl"), encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            with open(os.path.join(folder, "out", "failures.log"), encoding="utf-8") as file:
                return ended, rows, file.read()

    def test_each_check_has_a_line_as_it_ends(self):
        ended, rows, failures = self.check(PROGRAMS, "--steps", "tests", "--seconds", "8")
        passed = {row["name"]: row["passed"] for row in rows if row["step"] == "tests"}
        self.assertEqual(passed, {"test_passes_cuda": True, "test_fails_cuda": False, "test_skips_cuda": None, "test_hangs_cuda": False, "code": None})
        details = {row["name"]: row["detail"] for row in rows if row["step"] == "tests"}
        self.assertIn("exit status 3: one is not two", details["test_fails_cuda"])
        self.assertIn("cut off", details["test_hangs_cuda"])
        self.assertIn("one is not two", failures)
        self.assertEqual((rows[-1]["passed"], rows[-1]["failed"]), (1, 2))
        self.assertLess(rows[-1]["seconds"], 20)
        self.assertEqual(ended.returncode, 1)
        self.assertTrue(all(row["dry_run"] for row in rows[:-1]))

    def test_what_hangs_holds_up_nothing(self):
        _, rows, _ = self.check({"tests/test_hangs_cuda": PROGRAMS["tests/test_hangs_cuda"], "tenon": TENON}, "--steps", "tests", "answers",
                                "--seconds", "15")
        self.assertIn("cut off after 15 s", next(row["detail"] for row in rows if row.get("name") == "test_hangs_cuda"))
        self.assertEqual({row["passed"] for row in rows if row.get("name") in ("int8 on cpu again", "int4 on cpu")}, {True})

    def test_answers_are_compared(self):
        ended, rows, _ = self.check({"tenon": TENON}, "--steps", "answers", "reference")
        self.assertEqual([row["passed"] for row in rows if row["step"] == "answers"], [True] * 18)
        self.assertEqual([row["passed"] for row in rows if row["step"] == "reference"], [None])
        self.assertEqual(ended.returncode, 0)
        flips = TENON.replace("answer=1", "answer=$$")  # another answer in each process
        ended, rows, failures = self.check({"tenon": flips}, "--steps", "answers")
        failed = {row["name"].split()[0] for row in rows if row["passed"] is False}
        self.assertEqual(failed, {"float32", "int8", "int8_act8", "int8_group32", "int4", "int4_act8", "nf4"})
        self.assertEqual(sum(row["passed"] is False for row in rows if row["step"] == "answers"), 7)
        self.assertIn("output_ids", failures)
        self.assertEqual(ended.returncode, 1)

    def test_memory_has_a_bound(self):
        _, rows, _ = self.check({"tenon": TENON}, "--steps", "memory")
        self.assertEqual({row["name"] for row in rows if row["passed"] is False}, {"int4", "int4_act8"})
        self.assertEqual({row["name"] for row in rows if row["passed"] is True}, {"float32", "bfloat16", "bfloat16_dot", "int8", "int8_act8", "int8_group32", "nf4"})

    def test_the_benchmark_ends_with_what_is_wanted(self):
        fast = {name: text for name, text in PROGRAMS.items() if "hangs" not in name}
        _, rows, _ = self.check(fast, "--steps", "tests", "bench", "--seconds", "60")
        self.assertEqual(next(row["passed"] for row in rows if row.get("name") == "test_passes_cuda"), True)
        bench = {row["name"]: row for row in rows if row["step"] == "bench"}
        self.assertTrue(bench["compare"]["passed"], bench["compare"])
        self.assertEqual(len(bench), 12)  # nine cases beside torch, two of adapters
        distinct = json.loads(bench["adapters distinct 64"]["detail"])
        self.assertEqual((distinct["added_us"], distinct["reading_us"], distinct["share"]), (200.0, 100.0, 0.25))
        self.assertEqual(bench["decode random decode 64 900"]["passed"], None)

    def test_a_benchmark_without_a_peer_has_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "compare"), "random", "--gpu", "--quick", "--peers", "tenon", "--programs", "/usr",
                                    "--tenon", "/bin/false", "--out", os.path.join(folder, "out.jsonl")], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("tenon bfloat16 random: left out", ended.stderr)   # ended before it answered
        self.assertIn("bench_peers_adapters_gpu_peer", ended.stderr)     # not there
        self.assertIn('"ratio": null', ended.stdout)

    def test_without_a_device_nothing_has_passed(self):
        ended, rows, _ = self.check(PROGRAMS, dry_run=False)
        self.assertEqual([(row["step"], row["passed"]) for row in rows], [("device", False), ("all", 0)])
        self.assertEqual(ended.returncode, 1)


if __name__ == "__main__":
    unittest.main()
