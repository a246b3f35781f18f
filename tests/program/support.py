"""Shared by the tests of the program: they run it, and make small models from the default one.

The program is named by TENON_PROGRAM in the environment, or by the first argument.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TALES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "models" / "tales"


def program_path():
    named = os.environ.get("TENON_PROGRAM") or (sys.argv.pop(1) if len(sys.argv) > 1 else None)
    if not named:
        sys.exit("name the program: %s PROGRAM, or TENON_PROGRAM=PROGRAM" % sys.argv[0])
    return os.path.abspath(named)


PROGRAM = program_path()


def tenon(*arguments, stdin="", cwd=None, env=None):
    """Runs the program to its end: a CompletedProcess with text in stdout and stderr. env: variables to add."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, encoding="utf-8",
                          cwd=cwd, timeout=120, env={**os.environ, **(env or {})})


def json_lines(text):
    return [json.loads(line) for line in text.split("\n") if line]


def as_lines(requests):
    """Requests as lines of input. A string is passed on unchanged."""
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def answers(self, requests, *options, status=0):
        """The answers of `tenon run`, and its counters. It has one thread, because tests share the machine."""
        done = tenon("run", "--model", TALES, "--threads", 1, *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertTrue(done.stdout.isascii())
        return json_lines(done.stdout), json.loads(done.stderr.strip().split("\n")[-1])

    def model_of(self, *names, config=None):
        """A folder with the named files of the default model. `config` changes its config.json."""
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        for name in names:
            (model / name).symlink_to(TALES / name)
        if config is not None:
            changed = dict(json.loads((TALES / "config.json").read_text()), **config)
            (model / "config.json").write_text(json.dumps(changed))
        return model


def main():
    unittest.main(verbosity=1)
