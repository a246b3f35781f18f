"""tenon constrain: constraints without a model, JSON lines in and out."""
import itertools
import json
import random
import re
import subprocess

import support
from support import PROGRAM, TALES, ProgramTest, as_lines, json_lines, tenon

OBJECT = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "integer"}},
          "required": ["a"],
          "additionalProperties": False}


def ask(kind, constraint, *texts, **more):
    return {"kind": kind, "constraint": constraint, "texts": [(t if isinstance(t,
        bytes) else t.encode()).hex() for t in texts]} | more


LETTERS = "ab-"
TEXTS = ["".join(letters) for n in range(5) for letters in itertools.product(LETTERS, repeat=n)]


def fixed_width(chance, width):
    """A pattern whose matches all have `width` characters: Python's lookbehind accepts no others."""
    part = lambda: chance.choice(["a", "b", "-", "[ab]", "[^a]", ".", r"\w", r"\W"])
    one = "".join(part() for _ in range(width))
    return one if chance.random() < 0.6 else f"(?:{one}|{''.join(part() for _ in range(width))})"


def random_pattern(chance, height):
    if height == 0:
        return chance.choice(["a", "b", "-", "[ab]", "[^a]", ".", r"\w", r"\W", "", "^", "$", r"\b", r"\B"])
    inner = lambda: random_pattern(chance, height - 1)
    kind = chance.randrange(8)
    if kind < 3:
        return inner() + inner()
    if kind == 3:
        return f"(?:{inner()}|{inner()})"
    if kind == 4:
        return f"(?:{inner()}){chance.choice(['*', '+', '?', '{2}', '{1,2}', '*?'])}"
    if kind == 5:
        return f"(?{chance.choice('=!')}{inner()})"
    if kind == 6:
        return f"(?<{chance.choice('=!')}{fixed_width(chance, chance.randrange(1, 4))})"
    return f"(?P<n{chance.randrange(10 ** 9)}>{inner()})"


class Constrain(ProgramTest):
    def answers(self, requests, *options):
        done = tenon("constrain", *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.isascii())
        return json_lines(done.stdout)

    def verdicts(self, request, *options):
        answer, = self.answers([request], *options)
        self.assertEqual(answer["status"], "ok", answer)
        return answer["verdicts"]

    def test_answers_come_in_order(self):
        requests = [ask("regex", f"a{{{i}}}", "a" * i, id=f"number {i}") for i in range(20)]
        answers = self.answers(requests)
        self.assertEqual([a["id"] for a in answers], [r["id"] for r in requests])
        for answer in answers:
            self.assertEqual(answer["verdicts"], [True], answer)
            self.assertGreater(answer["compile_us"], 0)
            self.assertGreater(answer["mask_us"]["n"], 0)
            self.assertEqual(set(answer["mask_us"]), {"n", "mean", "p50", "p95", "p99", "max"})
        self.assertEqual(self.answers([]), [])
        self.assertIsNone(self.answers([ask("regex", "a")])[0]["id"])

    def test_each_answer_comes_before_the_next_question(self):
        with subprocess.Popen([PROGRAM, "constrain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              encoding="utf-8") as process:
            for i in range(3):
                process.stdin.write(as_lines([ask("regex", "a", "a", id=i)]))
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline())["id"], i)
            process.stdin.close()
            self.assertEqual(process.wait(timeout=60), 0)

    def test_a_bad_line_is_an_error_and_the_others_go_on(self):
        bad = ["{", "[]", "3", "null", '"text"', "{}", '{"kind":"regex"}', '{"kind":"regex","constraint":3}',
               '{"kind":"grammar","constraint":{}}',
               '{"kind":"prose","constraint":"a"}', '{"kind":3,"constraint":"a"}',
               '{"kind":"regex","constraint":"a","texts":["6"]}',
               '{"kind":"regex","constraint":"a","texts":["zz"]}', '{"kind":"regex","constraint":"a","texts":[3]}',
               '{"a":1,"a":2}']
        lines = [line for each in bad for line in (each, ask("regex", "a", "a"))]
        answers = self.answers(lines)
        self.assertEqual(len(answers), len(lines))
        for line, wrong, right in zip(bad, answers[::2], answers[1::2]):
            self.assertEqual(wrong["status"], "error", line)
            self.assertTrue(wrong["reason"], line)
            self.assertEqual(right["verdicts"], [True], line)
        self.assertEqual(self.answers(['{"id":"x","kind":"prose","constraint":"a"}'])[0]["id"], "x")

    def test_what_is_no_text_is_said_so(self):
        for request, reason in [({"kind": "regex", "constraint": 3}, "constraint: must be a string"),
                                ({"kind": "grammar", "constraint": {}}, "constraint: must be a string"),
                                ({"kind": 3, "constraint": "a"}, "kind: must be a string"),
                                ({"kind": "regex"}, "constraint: is missing"), ([], "kind: is missing"),
                                ({"kind": "regex", "constraint": "a", "texts": [3]}, "texts: must be a string")]:
            answer, = self.answers([json.dumps(request)])
            self.assertEqual((answer["status"], answer["reason"]), ("error", reason))

    def test_where_a_text_stops(self):
        for options in [[], ["--tokenizer", TALES]]:
            request = ask("schema", OBJECT, '{"a": "xyz", "b": 12}', '{"a":"xyz","b":12}', '{"a": "x"}',
                          '{"a": "wxyz"}', '{"b": 1}', '{"a": "x"', "", '{"a": "x"}}')
            answer, = self.answers([request], *options, "--walk", "bytes")
            self.assertEqual(answer["verdicts"], [True, True, True, False, False, False, False, False])
            self.assertEqual(answer["stopped_at"], [None, None, None, 10, 2, None, None, 10])
        answer, = self.answers([ask("schema", OBJECT, '{"a": "wxyz"}')], "--tokenizer", TALES)
        self.assertEqual(answer["verdicts"], [False])
        self.assertLessEqual(answer["stopped_at"][0], 10)  # where the token begins

    def test_bytes_that_are_no_text(self):
        texts = [b'"\xc3\xa9"', b'"\xc3"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf0\x9f\x98\x80"',
                 b'"\x00"', b'"\n"', b'"\x7f"', b"\xef\xbb\xbf\"\""]
        expected = [True, False, False, False, False, True, False, False, True, False]
        for options in [[], ["--tokenizer", TALES], ["--tokenizer", TALES, "--walk", "bytes"],
                        ["--tokenizer", TALES, "--walk", "random:5"]]:
            self.assertEqual(self.verdicts(ask("schema", {"type": "string"}, *texts), *options), expected, options)

    def test_a_choice_is_one_of_its_texts(self):
        for options in [[], ["--tokenizer", TALES]]:
            self.assertEqual(self.verdicts(ask("choice", ["yes", "no", "nothing"], "yes", "no", "nothing", "not", "", "yesno"), *options),
                             [True, True, True, False, False, False])
        answer, = self.answers([ask("choice", [])])
        self.assertEqual((answer["status"], answer["at"]), ("invalid", "choice"))
        answer, = self.answers([ask("choice", "yes")])
        self.assertEqual((answer["status"], answer["reason"]), ("error", "constraint: must be a list of strings"))

    def patterns_that_differ(self, patterns, read_as=lambda pattern: pattern):
        """The number of patterns that tenon and Python's re interpret differently, as whole matches and as searches in a schema's strings."""
        requests = [request for p in patterns for request in (
            ask("regex", read_as(p), *TEXTS), ask("schema", {"type": "string", "pattern": read_as(p)}, *(json.dumps(t) for t in TEXTS)))]
        answers = self.answers(requests)
        differ = []
        for i, pattern in enumerate(patterns):
            compiled = re.compile(pattern, re.ASCII)
            for answer, match in zip(answers[2 * i:2 * i + 2], (compiled.fullmatch, compiled.search)):
                expected = [match(text) is not None for text in TEXTS]
                verdicts = answer.get("verdicts")
                if answer["status"] == "invalid":  # no text matches
                    verdicts = [False] * len(TEXTS)
                # Before Python 3.14, \B does not match in the empty text; ECMA-262's \B does.
                first = 1 if r"\B" in pattern else 0
                if verdicts is None or verdicts[first:] != expected[first:]:
                    differ.append((pattern, answer["status"], answer.get("reason")))
        return differ

    def test_lookarounds_match_what_python_says(self):
        chance = random.Random(41)
        patterns = [random_pattern(chance, chance.randrange(1, 5)) for _ in range(400)]
        looking = [p for p in patterns if "(?!" in p or "(?=" in p or "(?<" in p]
        self.assertGreater(len(looking), 150)
        self.assertEqual(self.patterns_that_differ(patterns), [])
        # Counter-check: the comparison fails if lookarounds or boundaries are negated.
        turned = [p for p in looking if "(?=" in p or "(?<=" in p]
        self.assertGreater(len(self.patterns_that_differ(turned, lambda p: p.replace("(?=", "(?!").replace("(?<=", "(?<!"))), len(turned) // 3)
        bounded = [r"a\b", r"\b-?a", r"^\ba"]
        self.assertEqual(self.patterns_that_differ(bounded), [])
        self.assertTrue(self.patterns_that_differ(bounded, lambda p: p.replace(r"\b", r"\B")))

    def test_an_end_of_text_that_is_written_is_text(self):
        self.assertEqual(self.verdicts(ask("regex", "a<\\|endoftext\\|>", "a<|endoftext|>", "a"), "--tokenizer", TALES),
                         [True, False])

    def test_what_is_refused_says_why_and_where(self):
        cases = [("schema", {"properties": {"a": {"uniqueItems": True}}}, "unsupported", "#/properties/a/uniqueItems"),
                 ("schema", {"items": {"oneOf": [{"type": "array", "items": OBJECT},
                                                 {"type": "array", "minItems": 2, "items": {"type": "object"}}]}},
                  "unsupported", "#/items/oneOf"),
                 ("schema", {"properties": {"a/b": {"type": "text"}}}, "invalid", "#/properties/a~1b/type"),
                 ("schema", False, "invalid", "#"), ("schema", [], "invalid", "#"), ("schema", "a", "invalid", "#"),
                 ("schema", {"$ref": "#/$defs/a"}, "invalid", "#/$ref"), ("schema", {"$ref": "other.json"},
                                                                          "unsupported", "#/$ref"),
                 ("schema", {"$schema": "http://json-schema.org/draft-03/schema#"}, "unsupported", "#/$schema"),
                 ("schema", {"type": "string", "minLength": 2, "maxLength": 1}, "invalid", None),
                 ("regex", "a(?=b)", "invalid", None), ("regex", "a(?>b)", "unsupported", None), ("regex", "a(", "invalid", None),
                 ("regex", "(a)\\1", "unsupported", None),
                 ("grammar", 'root ::= "a" root', "invalid", None), ("grammar", "root ::= p", "invalid", None),
                 ("grammar", "", "invalid", None)]
        answers = self.answers([ask(kind, constraint, "a", id=i) for i, (kind, constraint, _, _) in enumerate(cases)])
        for i, ((_, constraint, status, at), answer) in enumerate(zip(cases, answers)):
            self.assertEqual((answer["id"], answer["status"]), (i, status), (constraint, answer))
            self.assertTrue(answer["reason"], answer)
            self.assertTrue(answer["at"], answer)
            self.assertNotIn("verdicts", answer)
            if at is not None:
                self.assertEqual(answer["at"], at, constraint)

    def test_what_is_not_enforced_is_named(self):
        schema = {"type": "object", "properties": {"b": {"type": "string", "format": "slug"},
                                                   "c": {"type": "string", "format": "date"}}}
        answer, = self.answers([ask("schema", schema, '{"b": "not a slug"}', '{"c": "2024-02-30"}')])
        self.assertEqual(answer["warnings"], ["format 'slug' is not enforced (#/properties/b)"])
        self.assertEqual(answer["verdicts"], [True, False])
        self.assertEqual(self.answers([ask("schema", {"title": "a", "x-own": 1})])[0]["warnings"], [])

    def test_a_draft_means_what_it_meant(self):
        schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 1, "exclusiveMinimum": True, "const": 5}
        answer, = self.answers([ask("schema", schema, "1", "2", "5")])
        self.assertEqual(answer["verdicts"], [False, True, True])
        self.assertEqual(answer["warnings"], ["const is not enforced: draft 4 does not have it (#)"])

    def test_verdicts_do_not_depend_on_how_texts_become_tokens(self):
        texts = ['{"a": "\u00e9\u20ac", "b": -12}', '{"a": "\u00e9\u20ac\u00e9\u00e9"}', '{"a": "", "b": 1.5}',
                 '{"a":"\\n\\""}', '{"a":"a"}x', "null"]
        grammar = 'root ::= "(" root ")" | [a-z]+ " "?'
        requests = [ask("schema", OBJECT, *texts), ask("schema", {}, *texts),
                    ask("grammar", grammar, "((abc ))", "((abc )", "(abc  )", "", "once upon"),
                    ask("regex", "(the|king|said| )*[.!]?", "the king said.", "the king saith", "the king said!.")]
        plain = [(a["verdicts"]) for a in self.answers(requests)]
        self.assertEqual(plain[0], [True, False, False, True, False, False])
        self.assertEqual(plain[2:], [[True, False, False, False, False], [True, False, False]])
        for walk in ["bpe", "bytes", "random:3", "random:4"]:
            answers = self.answers(requests, "--tokenizer", TALES, "--walk", walk)
            self.assertEqual([a["verdicts"] for a in answers], plain, walk)

    def test_audits_find_nothing(self):
        requests = [ask("schema", OBJECT, '{"a": "xyz", "b": 12}', '{"a": "wxyz"}'),
                    ask("schema", {"type": "string", "maxLength": 33}, '"%s"' % ("the " * 8)),
                    ask("schema", {}, '{"a": [1, null, "x"]}', generate={"count": 2, "seed": 1, "max_tokens": 30}),
                    ask("regex", "(a|b)*a(a|b){9}", "ab" * 9)]
        answers = self.answers(requests, "--tokenizer", TALES, "--audit", 3)
        self.assertEqual([a["status"] for a in answers], ["ok"] * 4, answers)
        plain = self.answers(requests, "--tokenizer", TALES)
        self.assertEqual([a["verdicts"] for a in answers], [a["verdicts"] for a in plain])

    def test_generated_texts_satisfy_the_constraint(self):
        for options in [[], ["--tokenizer", TALES]]:
            wanted = {"count": 5, "seed": 7, "max_tokens": 400}
            answer, = self.answers([ask("schema", OBJECT, generate=wanted)], *options)
            texts = [bytes.fromhex(g["text"]) for g in answer["generated"]]
            self.assertEqual([(g["complete"], g["dead_end"]) for g in answer["generated"]], [(True, False)] * 5)
            for text in texts:
                value = json.loads(text)
                self.assertLessEqual(len(value.pop("a")), 3)
                self.assertIsInstance(value.pop("b", 0), int)
                self.assertEqual(value, {})
            self.assertEqual(self.verdicts(ask("schema", OBJECT, *texts), *options), [True] * 5)
            again, = self.answers([ask("schema", OBJECT, generate=wanted)], *options)
            self.assertEqual(again["generated"], answer["generated"])
            other, = self.answers([ask("schema", OBJECT, generate=wanted | {"seed": 8})], *options)
            self.assertNotEqual(other["generated"], answer["generated"])
        cut, = self.answers([ask("regex", "a{100}", generate={"count": 1, "seed": 1, "max_tokens": 10})])
        self.assertEqual(cut["generated"], [{"text": "61" * 10, "complete": False, "tokens": 10, "dead_end": False}])

    def test_options(self):
        spaced = ask("schema", {"type": "array", "items": {"type": "integer"}}, "[1,2]", "[1, 2]", "[ 1 ,\n 2]")
        self.assertEqual(self.verdicts(spaced), [True, True, False])
        self.assertEqual(self.verdicts(spaced, "--option", "whitespace=single"), [True, True, False])
        self.assertEqual(self.verdicts(spaced, "--option", "whitespace=compact"), [True, False, False])
        self.assertEqual(self.verdicts(spaced, "--option", "whitespace=flexible"), [True, True, True])
        more = ask("schema", {"type": "object", "properties": {"a": {}}}, '{"a": 1}', '{"a": 1, "b": 2}')
        self.assertEqual(self.verdicts(more), [True, False])
        self.assertEqual(self.verdicts(more, "--option", "additional_properties=spec"), [True, True])
        both = ask("schema", {"oneOf": [{"type": "array", "items": {"type": "integer"}},
                                        {"type": "array", "items": {"type": "null"}}]}, "[1]", "[null]")
        self.assertEqual(self.answers([both])[0]["status"], "unsupported")
        self.assertEqual(self.verdicts(both, "--option", "one_of=any", "--option", "whitespace=compact"), [True, True])

    def test_wrong_options_are_wrong_usage(self):
        for options in [["--option", "whitespace=some"], ["--option", "whitespace"], ["--option", "nonsense=1"],
                        ["--option", ""], ["--walk", "words"],
                        ["--walk", "random:"], ["--walk", "random:x"], ["--walk", "random:-1"], ["--walk", ""],
                        ["--audit", "-1"], ["--audit", "x"],
                        ["--tokenizer", ""], ["--model", TALES]]:
            done = tenon("constrain", *options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertTrue(done.stderr, options)

    def test_a_folder_with_no_tokenizer_is_an_error(self):
        done = tenon("constrain", "--tokenizer", self.folder, stdin=as_lines([ask("regex", "a")]))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(self.folder.name, done.stderr)


if __name__ == "__main__":
    support.main()
