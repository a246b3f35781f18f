#!/usr/bin/env python3
"""scripts/check-links and scripts/options-table on small pages: what they find, and that each can fail."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.dont_write_bytecode = True


def loaded(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


links, options = loaded("check-links"), loaded("options-table")


class Links(unittest.TestCase):
    def found(self, text, page="docs/a.md", there=("docs/b.md", "README.md", "include/tenon/core/plan.h")):
        pages = {page: links.FENCE.sub("", text), "docs/b.md": "# B\n## 07 Zero-point int8\n## `GET /x`: a *b*\n## Twice\n## Twice\n"}
        return list(links.wrong_links(page, pages, lambda path: path in there or path == page))

    def test_files(self):
        self.assertEqual(self.found("[b](b.md), [up](../README.md), [far](https://example.org/x)"), [])
        self.assertEqual(self.found("[c](c.md)"), ["c.md: no such file"])
        self.assertEqual(self.found("![a picture](img/c.svg)"), ["img/c.svg: no such file"])
        self.assertEqual(self.found('<img src="img/c.png">'), ["img/c.png: no such file"])

    def test_headings(self):
        for name in ("07-zero-point-int8", "get-x-a-b", "twice", "twice-1"):
            self.assertEqual(self.found(f"[b](b.md#{name})"), [], name)
        self.assertEqual(self.found("[b](b.md#gone)"), ["b.md#gone: no such heading"])
        self.assertEqual(self.found("[b](b.md#twice-2)"), ["b.md#twice-2: no such heading"])
        self.assertEqual(self.found("## Here\n[here](#here)"), [])
        self.assertEqual(self.found("[here](#here)"), ["#here: no such heading"])

    def test_what_is_in_code_is_no_link_and_no_heading(self):
        self.assertEqual(self.found("```sh\n# Here\n[c](c.md)\n```\n"), [])
        self.assertEqual(self.found("```sh\n# Here\n```\n[here](#here)"), ["#here: no such heading"])

    def test_paths_in_backticks(self):
        self.assertEqual(self.found("`core/plan.h`, `tenon/core/plan.h`, `NN_name/x.cpp`, `--flag`"), [])
        self.assertEqual(self.found("`core/gone.h`"), ["`core/gone.h`: no such file"])
        self.assertEqual(self.found("`core/gone.h`", page="docs/decisions/0001-a.md", there=()), [])


HEADER = """struct Other {
  int other = 1;  // not this one
};

struct Options {
  int count = 16;       ///< most of them; 0: none
  float share = 0.5f;   // between 0 | 1
  std::vector<std::pair<int, float>> biases = {};  ///< added,
                                                   ///< in order
  // Above it.
  std::function<std::string(int)> name_of = [](int i) {
    return std::to_string(i);
  };
  bool ahead =
      true;  ///< broken by clang-format
  Clock::duration wait = std::chrono::seconds(2);  ///< time
  TimePoint begin{};                               ///< braces alone

  Options() = default;
  bool valid() const { return count > 0; }
  friend bool operator==(const Options&, const Options&) = default;
};
"""


class OptionsTable(unittest.TestCase):
    def test_every_field_with_its_default_and_comment(self):
        self.assertEqual(options.fields(HEADER, "Options"), [
            ("count", "int", "16", "most of them; 0: none"),
            ("share", "float", "0.5f", "between 0 | 1"),
            ("biases", "std::vector<std::pair<int, float>>", "", "added, in order"),
            ("name_of", "std::function<std::string(int)>", "[](int i) { return std::to_string(i); }", "Above it."),
            ("ahead", "bool", "true", "broken by clang-format"),
            ("wait", "Clock::duration", "std::chrono::seconds(2)", "time"),
            ("begin", "TimePoint", "", "braces alone")])

    def test_the_table(self):
        self.assertEqual(options.table(options.fields(HEADER, "Options")).split("\n")[2:5], [
            "| `count` | `int` | `16` | most of them; 0: none |",
            "| `share` | `float` | `0.5f` | between 0 \\| 1 |",
            "| `biases` | `std::vector<std::pair<int, float>>` |  | added, in order |"])

    def test_a_field_without_a_comment_and_a_struct_that_is_gone(self):
        with self.assertRaises(options.Wrong):
            options.table(options.fields("struct A {\n  int a = 1;\n};\n", "A"))
        with self.assertRaises(options.Wrong):
            options.fields(HEADER, "Gone")

    def test_a_page_is_written_anew(self):
        page = "<!-- options: a.h#Options -->\n| old |\n<!-- /options -->\nafter\n"
        with tempfile.TemporaryDirectory() as root:
            pathlib.Path(root, "a.h").write_text(HEADER)
            options.ROOT = pathlib.Path(root)
            new = options.made(page)
            self.assertEqual(options.made(new), new)
        self.assertIn("| `count` | `int` | `16` |", new)
        self.assertNotIn("old", new)
        self.assertTrue(new.endswith("<!-- /options -->\nafter\n"))


if __name__ == "__main__":
    unittest.main()
