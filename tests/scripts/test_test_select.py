"""scripts/test-select leaves out what passed with the same inputs, and nothing else; scripts/test-summary records what passed.

    test_test_select.py TREE       also: every test of this build tree has the label fast or full, and not both
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = sys.argv.pop(1)
TESTS = {  # name: (command, labels)
    "unit": ("{tree}/program", "unit;fast"),
    "other": ("{tree}/other", "unit;fast"),
    "driven": ("sh {root}/tests/server/drive.sh {tree}/program", "server;fast"),
    "headers": ("true", "headers;full"),
    "fails": ("false", "unit;fast"),
    "skips": ("sh -c exit\\ 77", "unit;fast"),
}
ALWAYS = {"fails", "skips"}


class Select(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "repository"
        self.tree = self.root / "build"
        for name in ("test-select", "test-summary"):
            self.write(f"scripts/{name}", (ROOT / "scripts" / name).read_text())
        self.write("include/tenon/a.h", "int a;\n")
        self.write("tests/core/data.json", "{}\n")
        self.write("tests/server/drive.sh", "true\n")
        self.write("docs/a.md", "a\n")
        self.write("../shared/golden/answers.json", "[]\n")
        self.write("../shared/notes/a.md", "a\n")
        for name in ("program", "other"):
            self.write(f"build/{name}", "#!/bin/sh\n").chmod(0o755)
        lines = []
        for name, (command, labels) in TESTS.items():
            words = " ".join(f'"{word}"' for word in command.replace("\\ ", "\0").format(tree=self.tree, root=self.root).split(" "))
            lines += [f"add_test({name} {words})".replace("\0", " "), f'set_tests_properties({name} PROPERTIES LABELS "{labels}" SKIP_RETURN_CODE 77)']
        self.write("build/CTestTestfile.cmake", "\n".join(lines) + "\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def select(self, *options):
        """The names of the tests that are chosen, and the argument of ctest's -I for each part."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TENON_")}
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/test-select", self.tree, *options], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        parts = dict(line.split(" ") for line in done.stdout.splitlines())
        names = list(TESTS)
        return {names[int(number) - 1] for numbers in parts.values() for number in numbers.split(",")[3:]}, parts

    def run_tests(self, *options, parts=("fast", "headers"), summary=()):
        """Runs what is chosen and in one of these parts, as scripts/test does; the chosen names, and what the summary says."""
        names, chosen = self.select(*options)
        reports = self.tree / "test-reports"
        shutil.rmtree(reports, ignore_errors=True)
        for part, numbers in chosen.items():
            if part in parts:
                subprocess.run(["ctest", "--test-dir", self.tree, "--output-junit", reports / f"{part}.xml", "-I", numbers], capture_output=True)
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/test-summary", self.tree, *summary], capture_output=True, text=True)
        self.said, self.status = done.stdout, done.returncode
        return names

    def after_all_passed(self):
        self.assertEqual(self.run_tests(), set(TESTS))
        self.assertEqual(self.select()[0], ALWAYS)

    def test_what_passed_is_left_out_and_what_failed_or_was_skipped_is_not(self):
        self.after_all_passed()
        self.assertEqual(self.status, 1)
        self.assertIn("failed   fails", self.said)
        self.assertIn("tests: 4 passed, 1 failed, 1 skipped", self.said)
        self.assertEqual(self.run_tests(), ALWAYS)
        self.assertIn("not run  4 tests", self.said)
        self.assertEqual(self.select("--all")[0], set(TESTS))

    def test_tests_that_were_not_started_are_named_and_run_next_time(self):
        self.assertEqual(self.run_tests("-R", "unit|headers", parts=["fast"]), {"unit", "headers"})
        self.assertEqual(self.status, 1)  # no limit of time explains it
        self.assertIn("failed   not started: headers", self.said)
        self.assertEqual(self.run_tests("-R", "other|headers", parts=["fast"], summary=["0", "--limited"]), {"other", "headers"})
        self.assertEqual(self.status, 0, self.said)
        self.assertEqual(self.run_tests("--all", parts=["fast"], summary=["0", "--limited"]), set(TESTS))
        self.assertIn("no time  1 tests were not started: headers", self.said)
        self.assertIn("tests: 3 passed, 1 failed, 1 skipped, 1 not started", self.said)
        self.assertEqual(self.run_tests(), ALWAYS | {"headers"})
        self.assertNotIn("not started", self.said)

    def test_numbers_are_those_of_the_preset(self):
        """ctest counts the tests that a preset leaves."""
        self.write("CMakePresets.json", json.dumps({"version": 6, "testPresets": [
            {"name": "some", "configurePreset": "some", "filter": {"exclude": {"name": "^(unit|driven)$"}}}],
            "configurePresets": [{"name": "some", "binaryDir": str(self.tree)}]}))
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/test-select", self.tree, "--preset", "some", "-R", "other|headers"],
                              capture_output=True, text=True, cwd=self.root)
        ran = ""
        for line in done.stdout.splitlines():
            numbers = line.split(" ")[1]
            ran += subprocess.run(["ctest", "--preset", "some", "-N", "-I", numbers], capture_output=True, text=True, cwd=self.root).stdout
        self.assertIn("other", ran, done)
        self.assertIn("headers", ran)
        self.assertNotIn("fails", ran)

    def test_labels_choose(self):
        self.assertEqual(self.select("-L", "full")[0], {"headers"})
        self.assertEqual(self.select("-LE", "full", "-R", "unit")[0], {"unit"})

    def test_nothing_left_is_no_failure(self):
        self.assertEqual(self.run_tests("-R", "unit"), {"unit"})
        self.assertEqual(self.run_tests("-R", "unit"), set())
        self.assertEqual(self.status, 0, self.said)

    def test_a_program_that_changed_runs_with_all_that_drives_it(self):
        self.after_all_passed()
        self.write("build/program", "#!/bin/sh\nexit 0\n")
        self.assertEqual(self.select()[0], ALWAYS | {"unit", "driven"})

    def test_a_program_that_was_rebuilt_the_same_does_not(self):
        self.after_all_passed()
        os.utime(self.tree / "program", (1, 1))
        self.assertEqual(self.select()[0], ALWAYS)

    def test_a_test_that_passed_and_failed_since_runs_again(self):
        self.after_all_passed()
        before = (self.tree / "other").read_text()
        self.write("build/other", "#!/bin/sh\nexit 1\n")
        self.assertEqual(self.run_tests(), ALWAYS | {"other"})
        self.write("build/other", before)
        self.assertEqual(self.select()[0], ALWAYS | {"other"})

    def test_files_count_for_the_labels_that_read_them(self):
        self.after_all_passed()
        for path, ran in [("include/tenon/a.h", {"headers"}), ("docs/a.md", {"headers"}), ("tests/server/drive.sh", {"headers", "driven"}),
                          ("tests/core/data.json", {"headers", "driven", "unit", "other"}), ("build/tests/libshared.so.1", set(TESTS)),
                          ("../shared/golden/answers.json", set(TESTS)), ("../shared/notes/a.md", set())]:
            before = (self.root / path).read_text() if (self.root / path).exists() else ""
            self.write(path, before + "more\n")
            self.assertEqual(self.select()[0], ALWAYS | ran, path)
            self.write(path, before)
            if path.endswith("so.1"):
                (self.root / path).unlink()
        self.assertEqual(self.select()[0], ALWAYS)

    def test_an_interrupted_run_records_nothing(self):
        self.assertEqual(self.select()[0], set(TESTS))
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/test-summary", self.tree], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.select()[0], set(TESTS))

    def test_the_longest_are_named(self):
        self.write("build/slow.o", "")
        self.write("build/.ninja_log", "# ninja log v5\n0\t1500\t0\tslow.o\tabc\n0\t9000\t0\tgone.o\tabc\n")
        self.run_tests()
        done = subprocess.run([sys.executable, "-B", self.root / "scripts/test-summary", self.tree, "0"], capture_output=True, text=True)
        self.assertIn("longest to compile (1, 2 s in all):\n      1.5 s  slow.o", done.stdout)
        self.assertIn("longest tests (6,", done.stdout)


class Labels(unittest.TestCase):
    def test_every_test_is_fast_or_full(self):
        listed = json.loads(subprocess.run(["ctest", "--test-dir", TREE, "--show-only=json-v1"], capture_output=True, text=True).stdout)["tests"]
        self.assertGreater(len(listed), 0)
        for test in listed:
            labels = next((each["value"] for each in test["properties"] if each["name"] == "LABELS"), [])
            self.assertEqual(len({"fast", "full"} & set(labels)), 1, test["name"])


if __name__ == "__main__":
    if not shutil.which("ctest"):
        print("skipped: no ctest")
        sys.exit(77)
    unittest.main(verbosity=1)
