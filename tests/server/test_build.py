"""CMake and scripts/serve name the missing dependency if the server cannot be built."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURE = ["-DTENON_MENU=default", "-DTENON_BUILD_TESTS=OFF", "-DTENON_BUILD_EXAMPLES=OFF", "-DTENON_BUILD_BENCH=OFF", "-DTENON_BUILD_CUDA=OFF"]
DISABLED = "-DCMAKE_DISABLE_FIND_PACKAGE_%s=TRUE"


class Tree:
    """A copy of the repository, and a cmake that does not find some packages."""

    def __init__(self, *missing):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for each in ROOT.iterdir():
            if not each.name.startswith(("build", ".")) and each.name != "scripts":
                (self.path / each.name).symlink_to(each)
        shutil.copytree(ROOT / "scripts", self.path / "scripts")
        programs = self.path / "programs"
        programs.mkdir()
        flags = " ".join(DISABLED % package for package in missing)
        (programs / "cmake").write_text(f'#!/bin/sh\ncase $1 in -S) exec {shutil.which("cmake")} "$@" {flags} ;; esac\nexit 3\n')
        (programs / "cmake").chmod(0o755)
        self.environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def run(self, *command):
        done = subprocess.run(command, cwd=self.path, env=self.environment, capture_output=True, encoding="utf-8", timeout=200)
        done.said = re.sub(r"\s+", " ", done.stderr)  # CMake breaks long lines
        return done

    def missing(self, *flags):
        """The missing dependency that CMake names; empty if there is none."""
        done = self.run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *CONFIGURE, *flags)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        kept, = re.findall("^TENON_SERVER_MISSING:INTERNAL=(.*)$", (self.path / "build" / "CMakeCache.txt").read_text(), re.MULTILINE)
        warned = re.findall(r"CMake Warning at apps/serve/CMakeLists.txt:\d+ \(message\): tenon: the server \(tenon-serve\) is left out: (.*?)\. -D", done.said)
        if warned != ([kept] if kept else []):
            raise AssertionError((kept, done.stderr))
        return kept


class Missing(unittest.TestCase):
    def test_packages(self):
        with Tree() as tree:
            for package, part, debian in [("Boost", "Boost 1.74 or newer", "libboost-dev"), ("OpenSSL", "OpenSSL 1.1.1 or newer", "libssl-dev")]:
                missing = tree.missing(DISABLED % package)
                self.assertIn(part, missing)
                self.assertIn(debian, missing)
                self.assertEqual(tree.missing((DISABLED % package).replace("TRUE", "FALSE")), "")  # found this time

    def test_the_script(self):
        with Tree("OpenSSL") as tree:
            done = tree.run("scripts/serve", "--help")
            self.assertEqual(done.returncode, 1, done.stderr)
            last = done.stderr.splitlines()[-1]
            self.assertTrue(last.startswith("scripts/serve: the server cannot be built: "), done.stderr)
            self.assertIn("libssl-dev", last)
            self.assertNotIn("unknown target", done.stderr)


if __name__ == "__main__":
    del sys.argv[1:2]  # remove the server's path, which this test does not need
    if not shutil.which("cmake") or not shutil.which("ninja"):
        print("skipped: no cmake or ninja")
        sys.exit(77)
    unittest.main(verbosity=1)
