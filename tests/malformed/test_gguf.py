"""Malformed GGUF files end as one readable error, at once, without much memory."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "program"))

import gguf_cases
import support
from checks import MEGABYTES, SECONDS, check
from support import ProgramTest


class MalformedGguf(ProgramTest):
    def check_bytes(self, data):
        path = self.folder / "model.gguf"
        path.write_bytes(data)
        return check(path)

    def test_the_sound_file_loads(self):
        status, output, _, _ = self.check_bytes(gguf_cases.sound())
        self.assertEqual(status, 0, output)
        second = gguf_cases.Gguf()
        second.version = 2
        self.assertEqual(self.check_bytes(second.bytes())[0], 0)
        for kind, size in ((gguf_cases.IQ4_XS, 136), (gguf_cases.IQ1_M, 56)):
            third = gguf_cases.Gguf()
            gguf_cases.blocks(kind, bytes(size))(third)
            status, output, _, _ = self.check_bytes(third.bytes())
            self.assertEqual(status, 0, output)

    def test_each_fault_is_one_readable_error(self):
        usual = self.check_bytes(gguf_cases.sound())[3]
        names = set()
        for name, data, words in gguf_cases.cases():
            names.add(name)
            with self.subTest(name):
                status, output, seconds, megabytes = self.check_bytes(data)
                self.assertEqual(status, 1, output)
                self.assertEqual(output.count("\n"), 1, output)
                self.assertIn("model.gguf", output)
                for word in words:
                    self.assertIn(word.lower(), output.lower())
                self.assertLess(seconds, SECONDS * 5)  # tests share the machine
                self.assertLess(megabytes, usual + MEGABYTES)
        self.assertGreaterEqual(len(names), 65)


if __name__ == "__main__":
    support.main()
