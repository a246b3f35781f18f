#!/usr/bin/env python3
"""scripts/check-style on small files: what it takes for a function, and that each budget can fail."""
import importlib.machinery
import importlib.util
import pathlib
import shutil
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check-style"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("check_style", str(SCRIPT))
style = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_style", loader))
loader.exec_module(style)


def functions(text):
    return style.functions(style.blank(text)[0])


def over(text, name="include/tenon/a.h"):
    return [(what, line) for _, what, line, _ in style.over_budget(name, text)]


def long_function(head, lines, indent=""):
    return f"{indent}{head} {{\n" + f"{indent}  go();\n" * (lines - 2) + f"{indent}}}\n"


def moved(text):
    return list(style.check_moves.findings(style.blank(text)[0]))


class Moves(unittest.TestCase):
    def test_a_call_that_moves_and_reads(self):
        for text in ("f(std::move(a), g(a));", "f(a.size(), std::move(a));", "A::A(B a) : A(std::move(a), open(a)) {}",
                     "f(\n  std::move(a),\n  [a] { return 1; });", "f(1, g(std::move(a)), {a, 2});"):
            with self.subTest(text):
                self.assertEqual(moved(text), [(1, "a")])

    def test_other_calls(self):
        for text in ("f(std::move(a), g(b));", "f(std::move(a), b.a);", "f(std::move(a), \"a\");  // a", "g(a), f(std::move(a));",
                     "list.emplace(a.name, std::move(a));", "std::make_shared<A>(a.name, std::move(a));", "f(std::move(a), b::a);",
                     "for (int i = 0; i < a; i = g(std::move(a))) {}"):
            with self.subTest(text):
                self.assertEqual(moved(text), [])


class Functions(unittest.TestCase):
    def test_where_one_begins_and_ends(self):
        for head, name in (
                ("int f()", "f"),
                ("int f(int a, int b = 3) const noexcept", "f"),
                ("template <class A = int, int n = (3 > 2)>\nvoid f(A a = {})", "f"),
                ("template <class A>\nrequires(!Big<A>) void f(A a)", "f"),
                ("template <class A>\nrequires Small<A> auto f(A a) -> std::vector<int>", "f"),
                ("auto f() requires(true)", "f"),
                ("void f(A a) requires requires(A b) { b.g(); }", "f"),
                ("std::vector<int> Outer::f(std::function<int(int)> g)", "Outer::f"),
                ("Outer::Outer(int a) : a_(a), b_{a, 2}, c_(std::vector<int>{1})", "Outer::Outer"),
                ("Outer::~Outer()", "Outer::~Outer"),
                ("bool operator==(const A& a, const A& b)", "operator=="),
                ("void operator()(int a) const", "operator()"),
                ("__global__ void __launch_bounds__(32 * kWarps) f(const __grid_constant__ int a)", "f"),
                ("BOOST_AUTO_TEST_CASE(a_case)", "a_case"),
                ("int main(int argc, char** argv) try", "main"),
                ("struct A* f(struct B* b)", "f")):
            with self.subTest(head):
                lines = head.count("\n")
                found = functions("namespace a {\n" + long_function(head, 5) + "}\n")
                self.assertEqual([f[0] for f in found], [name])
                self.assertEqual(found[0][2], lines + 6)
                if "template" not in head:
                    self.assertEqual(found[0][1], 2)

    def test_members_and_what_follows(self):
        text = ("class A : public B {\n public:\n  A() : a_{1} {\n    go();\n  }\n  int f() { return 1; }\n\n private:\n"
                "  int a_ = {3};\n  std::vector<int> b_{1, 2};\n};\n\nint g() {\n  return 2;\n}\n")
        self.assertEqual(functions(text), [("A", 3, 5), ("f", 6, 6), ("g", 13, 15)])

    def test_what_is_none(self):
        for text in ("const int a[] = {1, 2};\n", "struct A {\n  int a = 0;\n};\n", "enum class A { a, b };\n",
                     "template <class A>\nconcept C = requires(A a) {\n  { a.f() } -> std::same_as<int>;\n  a.g();\n};\n",
                     "inline constexpr auto f = [](int a) {\n  return a;\n};\n", "A a{1};\n", "extern \"C\" {\nint f();\n}\n",
                     "// int f() {\n// }\n", "#define F(a) int f() { \\\n  a; }\n", "const char* a = \"int f() {\";\n",
                     "const char* a = R\"x(int f() {\n)x\";\n", "const char a = '{', b = '\\'', c = '\"';\n"):
            with self.subTest(text):
                self.assertEqual(functions(text), [])
                self.assertEqual([f[0] for f in functions(text + "int g() {\n  return 1'000;\n}\n")], ["g"])

    def test_a_lambda_counts_as_part_of_its_function(self):
        self.assertEqual(functions("int f() {\n  const auto g = [] {\n    return 1;\n  };\n  if (g()) {\n  }\n}\n"), [("f", 1, 7)])


class Budgets(unittest.TestCase):
    def test_functions(self):
        self.assertEqual(over(long_function("int f(int a)", style.FUNCTION)), [])
        self.assertEqual(over(long_function("int f(int a)", style.FUNCTION + 1)), [("f", 1)])
        inside = "class A {\n" + long_function("int f(int a) const", style.FUNCTION + 1, "  ") + "};\n"
        self.assertEqual(over(inside), [("f", 2)])
        wrapped = long_function("int f(int a,\n      int b)", style.FUNCTION)  # the head is a line more
        self.assertEqual(over(wrapped), [("f", 1)])
        self.assertEqual(over(long_function("BOOST_AUTO_TEST_CASE(a)", style.FUNCTION + 1), "tests/a.cpp"), [("a", 1)])

    def test_headers(self):
        self.assertEqual(over("int a;\n" * style.LINES), [])
        self.assertEqual(over("int a;\n" * (style.LINES + 1)), [("file", 1)])
        self.assertEqual(over("int a;\n" * (style.LINES + 1), "tests/a.cpp"), [])
        self.assertEqual(over("int a;\n" * (style.LINES + 1), "a.cuh"), [("file", 1)])

    def test_template_parameters(self):
        for parameters, count in (("class A, class B, int c, template <class, class> class D", 4), ("class... A", 1),
                                  ("", 0), ("class A, class B, class C = D<1, 2, 3>, int d = f(1, 2), class E = int", 5)):
            with self.subTest(parameters):
                self.assertEqual(over(f"\ntemplate <{parameters}>\nstruct A {{}};\n"), [("template", 2)] if count > 4 else [])

    def test_columns(self):
        long = "x" * (style.COLUMNS + 1)
        self.assertEqual(over(f"// {long[4:]}\n"), [])
        self.assertEqual(over(f"int a;\n// {long}\n"), [("columns", 2)])
        self.assertEqual(over(f"auto a = R\"({long}\n{long})\";\n"), [])
        self.assertEqual(over(f"auto a = R\"(x)\";\n// {long}\n"), [("columns", 2)])
        self.assertEqual(over(f"// clang-format off\n// {long}\n// clang-format on\n// {long}\n"), [("columns", 4)])

    def test_an_entry_that_is_not_needed_fails(self):
        allowed = dict(style.ALLOWED)
        names = sorted({file for file, _ in allowed} | {"include/tenon/version.h"})
        self.assertEqual(style.check_budgets(names), 0)
        try:
            style.ALLOWED["include/tenon/version.h", "f"] = "of no use"
            self.assertEqual(style.check_budgets(names), 1)
            style.ALLOWED.clear()
            self.assertGreaterEqual(style.check_budgets(names), len(allowed))
        finally:
            style.ALLOWED.clear()
            style.ALLOWED.update(allowed)

    def test_format(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder) / "good.h", pathlib.Path(folder) / "bad.h"
            shutil.copy(style.ROOT / ".clang-format", folder)
            good.write_text("int f(int* a) { return *a; }\n")
            bad.write_text("int f(int *a) { return *a; }\n")
            if style.check_format([str(good)]) is None:
                self.skipTest("clang-format is not installed")
            self.assertEqual(style.check_format([str(good)]), 0)
            self.assertEqual(style.check_format([str(good), str(bad)]), 1)

    def test_the_tree_is_found(self):
        names = style.files(style.known_files())
        self.assertGreater(len(names), 500)
        self.assertIn("include/tenon/tenon.h", names)
        self.assertIn("tests/ops/cuda/linear.cu", names)

    def test_every_exception_has_a_reason(self):
        self.assertTrue(all(len(reason) > 10 for reason in style.ALLOWED.values()))


class Language(unittest.TestCase):
    def found(self, text, name="include/tenon/a.h"):
        return [line for line, _ in style.check_language.findings(name, text)]

    def test_each_finding(self):
        long = "This sentence has " + "very " * 33 + "many words."
        for text, lines in (
                ("// Of a row, the last one.\nint a;\n", [1]),
                ("int a;\n// It is short. Whoever reads it knows.\n", [2, 2]),
                ("/// Rows behind the last one are zero.\n", [1]),
                ("int a;  // so many rows\n", [1]),
                (f"// {long}\n", [1]),
                ("// What a row is:\n// What it is not?\n", [1]),
                # No finding: code, literals, names in backquotes, half a sentence on two lines.
                ('const char* what = "Of behind so many"; // `behind`\n', []),
                ("// The first line ends\n// so many that it hangs: a result of so many as there are.\n", []),
                ("// Rows are left behind.\n// Offset of the row.\n", [])):
            with self.subTest(text):
                self.assertEqual(self.found(text), lines)

    def test_pages_and_scripts(self):
        page = "# Of rows\n\n| behind | so many |\n\n```\nOf code behind\n```\n\nOf rows.\n\n- One row\n  behind another.\n"
        self.assertEqual(self.found(page, "docs/a.md"), [9, 11])
        self.assertEqual(self.found('a = "# behind"  # behind\n"""Of a module."""\n', "a.py"), [1, 2])
        self.assertEqual(self.found("#!/bin/sh\n# Nobody waits.\n", "scripts/a"), [2])
        self.assertEqual(self.found("behind", "a.json"), [])

    def test_usage_lines_and_strings(self):
        words = "word " * 20
        self.assertEqual(self.found(f'"""Runs.\n\n    tool        {words}\n    tool --all  {words}\n"""\n', "a.py"), [])
        self.assertEqual(self.found(f"# Runs.\n#   tool        {words}\n#   tool --all  {words}\n", "a.sh"), [])
        self.assertEqual(self.found(f"# Runs {words}\n# and {words}\n", "a.sh"), [1])
        self.assertEqual(self.found(f"# - an item {words}\n#   that goes on {words}\n", "a.sh"), [1])
        self.assertEqual(self.found('TEXT = """\nOf code.\n"""\n', "a.py"), [])


class Names(unittest.TestCase):
    def found(self, **texts):
        return [(name, line) for name, line, _ in style.second_classes({f"include/tenon/{n}.h": t for n, t in texts.items()})]

    def test_two_classes_of_one_name(self):
        one = "namespace a {\nclass Answer {\n};\n}\n"
        for other in ("struct Answer {\n};\n", "class Answer final : public B {};\n", "enum class Answer : int { a };\n",
                      "template <class T>\nclass Answer {\n};\n", "struct Answer\n{\n};\n"):
            with self.subTest(other):
                self.assertEqual(self.found(a=one, b=other), [("include/tenon/b.h", 1 + other.startswith("template"))])

    def test_what_is_no_second_class(self):
        one = "class Answer {\n};\n"
        for other in ("class Answer;\n", "struct Answer;  // core/answer.h\n", "struct Answer<int> : A {};\n", "struct Answer::Part {};\n",
                      "class Other {\n  struct Answer {};\n};\n", "// class Answer {\n", "using Answer = int;\n", "struct Answers {};\n"):
            with self.subTest(other):
                self.assertEqual(self.found(a=one, b=other), [])

    def test_kernels_of_one_instruction_set_are_exempt(self):
        files = {f"include/tenon/ops/cpu/simd/{isa}.inc": "struct F32x16 {\n};\n" for isa in ("avx2", "avx512")}
        self.assertEqual(list(style.second_classes(files)), [])

    def test_the_server_is_reported_and_does_not_count(self):
        files = {"include/tenon/a.h": "class Answer {\n};\n", "apps/serve/answer.h": "class Answer {\n};\n"}
        self.assertEqual([message.endswith("(information)") for _, _, message in style.second_classes(files)], [True])

    def test_the_tree_has_no_finding(self):
        self.assertEqual(style.check_names(style.files(style.known_files())), 0)


class Contracts(unittest.TestCase):
    def setUp(self):
        self.files = style.check_contracts.read(style.ROOT, style.files(style.known_files()))

    def found(self, name, text):
        """(file, message) of the whole tree with one more file, or with another text of one."""
        return [(file, message) for file, _, message in style.check_contracts.findings({**self.files, name: text})]

    def test_the_tree_has_no_finding(self):
        self.assertEqual(list(style.check_contracts.findings(self.files)), [])

    def test_a_hook_without_a_name_is_found(self):
        for text in ("if constexpr (requires { P::merges_at_load; }) f();\n", "auto f() {\n  return requires(P p) {\n    p.flush();\n  };\n}\n",
                     "template <class P>\nrequires requires(P& p) { p.flush(); }\nvoid f(P& p) {}\n"):
            with self.subTest(text):
                self.assertEqual([file for file, _ in self.found("include/tenon/a.h", text)], ["include/tenon/a.h"])

    def test_clauses_and_comments_are_no_hooks(self):
        for text in ("auto f() requires(P::adds) { return 1; }\n", "void f() requires Named<P> {\n}\n", "// requires { P::x; }\nint a;\n",
                     "template <class P>\nrequires(!Named<P>) void f(P) {\n}\n"):
            with self.subTest(text):
                self.assertEqual(self.found("include/tenon/a.h", text), [])

    def test_a_concept_elsewhere_is_found(self):
        found = self.found("include/tenon/a.h", "// A hook.\ntemplate <class P>\nconcept Hook = requires(P p) {\n  p.x();\n};\n")
        self.assertEqual([message[:12] for _, message in found], ["concept Hook"])

    def test_a_message_that_leaves_a_member_out_is_found(self):
        name = "include/tenon/core/axes.h"
        (_, message), = self.found(name, self.files[name].replace("begin_step, put,", "put,"))
        self.assertIn("does not name begin_step", message)

    def test_an_entry_that_is_not_needed_is_found(self):
        name = "include/tenon/engine/any_engine.h"
        (_, message), = self.found(name, self.files[name].replace("requires(Engine & engine) { engine.adapters(); }", "true"))
        self.assertIn("delete this entry", message)


if __name__ == "__main__":
    unittest.main()
