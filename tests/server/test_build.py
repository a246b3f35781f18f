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
HTTPLIB = """Name: cpp-httplib
Description: not the library
Version: {version}
Libs: -lcpp-httplib
"""


class Tree:
    """A copy of the repository, with a pkg-config that knows one version of cpp-httplib, or none."""

    def __init__(self, version):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for each in ROOT.iterdir():
            if not each.name.startswith(("build", ".")) and each.name != "scripts":
                (self.path / each.name).symlink_to(each)
        shutil.copytree(ROOT / "scripts", self.path / "scripts")
        packages = self.path / "packages"
        packages.mkdir()
        if version:
            (packages / "cpp-httplib.pc").write_text(HTTPLIB.format(version=version))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PKG_CONFIG")} | {"PKG_CONFIG_LIBDIR": str(packages)}

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
    def test_versions(self):
        for version, part in [(None, "pkg-config finds no cpp-httplib"), ("0.10.8", "cpp-httplib is 0.10.8"), ("0.19.0", "cpp-httplib is 0.19.0"),
                              ("1.0.1", "cpp-httplib is 1.0.1"), ("0.11.0", ""), ("0.14.3+ds", ""), ("0.18.7", "")]:
            with Tree(version) as tree:
                missing = tree.missing()
                self.assertIn(part, missing, version)
                self.assertEqual(bool(part), bool(missing), (version, missing))
                if part:
                    self.assertIn("libcpp-httplib-dev", missing)

    def test_no_pkg_config(self):
        with Tree("0.18.7") as tree:
            self.assertIn("pkg-config was not found", tree.missing("-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=TRUE"))
            self.assertEqual(tree.missing("-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=FALSE"), "")  # found this time

    def test_the_script(self):
        for version in [None, "0.20.1"]:
            with Tree(version) as tree:
                done = tree.run("scripts/serve", "--help")
                self.assertEqual(done.returncode, 1, done.stderr)
                last = done.stderr.splitlines()[-1]
                self.assertTrue(last.startswith("scripts/serve: the server cannot be built: "), done.stderr)
                self.assertIn("libcpp-httplib-dev", last)
                self.assertNotIn("unknown target", done.stderr)


if __name__ == "__main__":
    del sys.argv[1:2]  # remove the server's path, which this test does not need
    if not shutil.which("cmake") or not shutil.which("ninja") or not shutil.which("pkg-config"):
        print("skipped: no cmake, ninja or pkg-config")
        sys.exit(77)
    unittest.main(verbosity=1)
