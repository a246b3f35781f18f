"""Malformed checkpoints of other libraries end as one readable error, at once, without much memory."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "program"))

import quantized_cases
import support
from checks import MEGABYTES, SECONDS, check
from support import ProgramTest


class MalformedQuantized(ProgramTest):
    def check_folder(self, folder, name):
        path = self.folder / name
        folder.write(path)
        return check(path)

    def test_the_sound_folders_load(self):
        sources = {source for _, source, _, _ in quantized_cases.FAULTS}
        self.assertGreaterEqual(len(sources), 12)
        for source in sorted(sources):
            status, output, _, _ = self.check_folder(quantized_cases.Folder(source), source)
            self.assertEqual(status, 0, f"{source}: {output}")

    def test_each_fault_is_one_readable_error(self):
        usual = self.check_folder(quantized_cases.Folder("gptq_g32"), "sound")[3]
        names = set()
        for name, folder, words in quantized_cases.cases():
            names.add(name)
            with self.subTest(name):
                status, output, seconds, megabytes = self.check_folder(folder, name)
                self.assertEqual(status, 1, output)
                self.assertEqual(output.count("\n"), 1, output)
                for word in words:
                    self.assertIn(word.lower(), output.lower())
                self.assertLess(seconds, SECONDS * 5)  # tests share the machine
                self.assertLess(megabytes, usual + MEGABYTES)
        self.assertGreaterEqual(len(names), 80)


if __name__ == "__main__":
    support.main()
