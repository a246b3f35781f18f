"""tenon convert: a model and an adapter that exist as pickles alone answer, once converted, as those in safetensors."""
import json
import shutil

import support
from support import TALES, ProgramTest, as_lines, json_lines, tenon
from test_merge import tensors_of
from torch_save import save

WEATHER = TALES / "adapters" / "weather"
REQUEST = {"prompt": "The wind", "max_new_tokens": 12, "seed": 3, "temperature": 0.8}


class ConvertTest(ProgramTest):
    def pickled(self, folder, stem, target):
        """A copy of the folder whose tensors are in <target>.bin instead."""
        out = self.folder / target
        out.mkdir()
        for file in folder.iterdir():
            if file.is_file() and not file.name.endswith(".safetensors"):
                shutil.copy(file, out)
        save(tensors_of(folder), out / (stem + ".bin"))
        return out

    def convert(self, folder, name, status=0):
        done = tenon("convert", folder, self.folder / name)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def answer(self, model, adapter=None):
        request = REQUEST | ({"adapter": str(adapter)} if adapter else {})
        done = tenon("run", "--model", model, "--threads", 1, stdin=as_lines([request]))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json_lines(done.stdout)[0]["output_ids"]

    def test_a_converted_model_answers_as_the_original(self):
        pickled = self.pickled(TALES, "pytorch_model", "pickled")
        done = self.convert(pickled, "converted")
        self.assertRegex(done.stdout, r"^model: \d+ tensors, [\d,]+ bytes, in 1 file\n$")
        self.assertEqual(tensors_of(self.folder / "converted"), tensors_of(TALES))
        self.assertEqual(self.answer(self.folder / "converted"), self.answer(TALES))

    def test_a_converted_adapter_answers_as_the_original(self):
        pickled = self.pickled(WEATHER, "adapter_model", "pickled")
        done = self.convert(pickled, "converted")
        self.assertRegex(done.stdout, r"^adapter: \d+ tensors")
        self.assertEqual(tensors_of(self.folder / "converted"), tensors_of(WEATHER))
        self.assertEqual(self.answer(TALES, self.folder / "converted"), self.answer(TALES, WEATHER))
        self.assertNotEqual(self.answer(TALES, WEATHER), self.answer(TALES))

    def test_a_pickle_is_refused_with_the_way_out(self):
        for folder, stem, run in ((TALES, "pytorch_model", ["check", "--model"]),
                                  (WEATHER, "adapter_model", ["merge", "--out", self.folder / "no", "--adapter"])):
            pickled = self.pickled(folder, stem, stem)
            done = tenon(*run, pickled)
            self.assertEqual(done.returncode, 1, done.stderr)
            for word in (stem + ".bin", "pickle", "tenon convert"):
                self.assertIn(word, done.stderr)

    def test_a_folder_of_safetensors_has_nothing_to_convert(self):
        done = self.convert(TALES, "out", status=1)
        self.assertIn("pytorch_model.bin", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_an_existing_folder_is_not_touched(self):
        pickled = self.pickled(TALES, "pytorch_model", "pickled")
        (self.folder / "out").mkdir()
        self.assertIn("out", self.convert(pickled, "out", status=1).stderr)
        self.assertEqual(list((self.folder / "out").iterdir()), [])


if __name__ == "__main__":
    support.main()
