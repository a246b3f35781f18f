"""Constraints on the command line: "schema" of run, --schema, --regex and --grammar of generate."""
import json
import pathlib
import tempfile
import unittest

import support
from support import TALES, ProgramTest, tenon

CHARACTER = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer"}},
             "required": ["name", "age"], "additionalProperties": False}


def request(schema=None, **more):
    return {"prompt": "A character of the tale:", "max_new_tokens": 60, "logits_hash": True} | ({"schema": schema} if schema is not None else {}) | more


class Run(ProgramTest):
    def test_every_answer_satisfies_its_schema_alone_and_beside_others(self):
        requests = [request(CHARACTER, temperature=1, seed=i) for i in range(6)] + [request(), request({"enum": ["a", 3, None]}),
                    request({"type": "string", "pattern": "^[a-c]{3}$"}), request(CHARACTER, adapter=str(TALES / "adapters" / "characters"))]
        answers, _ = self.answers(requests)
        for answer in answers[:6] + answers[9:]:
            if answer["finish_reason"] == "stop":
                value = json.loads(answer["text"])
                self.assertEqual(list(value), ["name", "age"])
                self.assertLessEqual(len(value["name"]), 10)
        self.assertIn(json.loads(answers[7]["text"]), ["a", 3, None])
        self.assertRegex(answers[8]["text"], '^"[a-c]{3}"$')
        for options in [("--batch", 1), ("--batch", 3, "--token-budget", 7), ("--batch", 4, "--scheduler", "fair"),
                        ("--batch", 10, "--cache-tokens", 160)]:
            alone, _ = self.answers(requests, *options)
            self.assertEqual(alone, answers, options)

    def test_keys_come_in_the_schemas_order(self):
        schema = {"type": "object", "properties": {"z": {"const": 1}, "a": {"const": 2}}, "required": ["z", "a"]}
        answers, _ = self.answers([request(schema)])
        self.assertEqual(list(json.loads(answers[0]["text"])), ["z", "a"])

    def test_what_is_refused_says_where_and_the_others_go_on(self):
        cases = [({"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}, "#/properties/a"), ({"type": 3}, "#/type"), (False, "schema")]
        answers, _ = self.answers([request(schema) for schema, _ in cases] + [request()], status=1)
        for (schema, named), answer in zip(cases, answers):
            self.assertIn("schema", answer["error"], schema)
            self.assertIn(named, answer["error"], schema)
        self.assertIn("output_ids", answers[-1])

    def test_a_text_is_finished_within_its_budget(self):
        requests = [request(CHARACTER, temperature=1, seed=i, max_new_tokens=26, finish_within_budget=True) for i in range(8)]
        answers, _ = self.answers(requests)
        for answer in answers:
            self.assertEqual(list(json.loads(answer["text"])), ["name", "age"])
            self.assertEqual(answer["finish_reason"], "stop")
            self.assertLessEqual(len(answer["output_ids"]), 26)
        alone, _ = self.answers(requests, "--batch", 1)
        self.assertEqual(alone, answers)
        answers, _ = self.answers([request(finish_within_budget=True), request({"const": "abc"}, finish_within_budget=False)], status=1)
        self.assertIn("finish_within_budget", answers[0]["error"])
        self.assertEqual(json.loads(answers[1]["text"]), "abc")

    def test_no_schema_may_be_written_as_null(self):
        answers, _ = self.answers([request(), request() | {"schema": None}])
        self.assertEqual(answers[0], answers[1])

    def test_ignore_eos_goes_on_while_anything_may_come(self):
        answers, _ = self.answers([request({"type": "integer", "minimum": 1, "maximum": 999}, ignore_eos=True)])
        self.assertEqual(len(str(json.loads(answers[0]["text"]))), 3)


class Generate(unittest.TestCase):
    def generated(self, *options, status=0):
        tokens = () if "--max-new-tokens" in options else ("--max-new-tokens", 80)
        done = tenon("generate", "A character of the tale:", *tokens, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.strip() if status == 0 else done.stderr

    def test_a_text_that_is_cut_is_told(self):
        done = tenon("generate", "Call", "--regex", "[0-9]{300}", "--max-new-tokens", 3)
        self.assertEqual(done.returncode, 0)
        self.assertIn("tenon: the text was cut at 3 tokens, so it may not be whole; a larger --max-new-tokens, or --finish, which", done.stderr)
        for options in (["--regex", "[0-9]{3}"], []):
            self.assertNotIn("cut", tenon("generate", "Call", *options, "--max-new-tokens", 8).stderr)

    def test_schema_regex_and_grammar(self):
        with tempfile.TemporaryDirectory() as folder:
            schema, grammar = pathlib.Path(folder, "schema.json"), pathlib.Path(folder, "list.gbnf")
            schema.write_text(json.dumps(CHARACTER))
            grammar.write_text('root ::= item (", " item){2}\nitem ::= [a-z]{3,8}\n')
            self.assertEqual(list(json.loads(self.generated("--schema", schema))), ["name", "age"])
            self.assertRegex(self.generated("--regex", "[0-9]{3}-[0-9]{4}"), "^[0-9]{3}-[0-9]{4}$")
            self.assertRegex(self.generated("--grammar", grammar), "^[a-z]{3,8}, [a-z]{3,8}, [a-z]{3,8}$")
            for seed in range(4):
                words = self.generated("--grammar", grammar, "--max-new-tokens", 14, "--finish", "--temperature", 1, "--seed", seed)
                self.assertRegex(words, "^[a-z]{3,8}, [a-z]{3,8}, [a-z]{3,8}$")
            self.assertIn("excludes", self.generated("--schema", schema, "--regex", "a", status=2))
            schema.write_text("{")
            self.assertIn("schema", self.generated("--schema", schema, status=1))
        self.assertIn("nowhere", self.generated("--schema", "nowhere", status=1))
        self.assertIn("regex", self.generated("--regex", "(", status=1))
        self.assertIn("finish_within_budget", self.generated("--finish", status=1))


if __name__ == "__main__":
    support.main()
