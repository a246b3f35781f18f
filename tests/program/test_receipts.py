"""`"receipt": true` of tenon run, and tenon verify."""
import json

import support
from support import TALES, ProgramTest, tenon

KING = "Once upon a time"
ADAPTERS = str(TALES / "adapters")
REQUESTS = [{"prompt": KING, "max_new_tokens": 12},
            {"prompt": KING, "max_new_tokens": 12, "temperature": 0.8, "seed": 2**64 - 1, "n": 2, "top_k": 40, "top_p": 0.9},
            {"prompt": KING, "max_new_tokens": 12, "temperature": 0.7, "repetition_penalty": 1.1, "logit_bias": {"5": -1.5}, "stop": [" the"]},
            {"prompt": KING, "max_new_tokens": 16, "regex": "[a-z ]{4,30}"},
            {"prompt": KING, "max_new_tokens": 24, "schema": {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}}},
            {"prompt": KING, "max_new_tokens": 8, "choice": ["yes", "no"]},
            {"prompt": KING, "max_new_tokens": 12, "adapter": ADAPTERS + "/weather"},
            {"prompt": KING, "max_new_tokens": 12, "adapter": {ADAPTERS + "/weather": 0.7, ADAPTERS + "/shakespeare": 0.5}},
            {"prompt": KING, "max_new_tokens": 0}]


def verify(*answers, options=()):
    done = tenon("verify", "--model", TALES, *options, stdin="".join(json.dumps(answer) + "\n" for answer in answers))
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


class Receipts(ProgramTest):
    @classmethod
    def setUpClass(cls):
        lines = "".join(json.dumps({"id": i, "receipt": True, **request}) + "\n" for i, request in enumerate(REQUESTS))
        done = tenon("run", "--model", TALES, stdin=lines)
        assert done.returncode == 0, done.stderr + done.stdout
        cls.answers = [json.loads(line) for line in done.stdout.splitlines()]

    def test_they_hold_in_every_schedule(self):
        for options in [[], ["--threads", "1", "--token-budget", "5", "--cache", "contiguous"], ["--draft", "lookup", "--batch", "2"]]:
            status, lines = verify(*self.answers, options=options)
            self.assertEqual(lines, [{"id": i, "holds": True} for i in range(len(REQUESTS))])
            self.assertEqual(status, 0)

    def test_a_receipt_alone_is_a_line(self):
        status, lines = verify(self.answers[0]["receipt"])
        self.assertEqual((status, lines), (0, [{"id": None, "holds": True}]))

    def test_choices_have_their_own(self):
        seeds = [choice["receipt"]["parameters"]["seed"] for choice in self.answers[1]["choices"]]
        self.assertEqual(seeds, [2**64 - 1, 0])

    def changed(self, index, change):
        answer = json.loads(json.dumps(self.answers[index]))
        change(answer["receipt"])
        status, (line,) = verify(answer)
        self.assertEqual((status, line["id"], line["holds"]), (1, index, False))
        return line["field"], line["position"]

    def test_changes_are_named(self):
        def id_of(i):
            return lambda r: r["ids"].__setitem__(i, r["ids"][i] ^ 1)

        def link_of(i):
            return lambda r: r.update(links=r["links"][:8 * i] + "00000000" + r["links"][8 * i + 8:])

        self.assertEqual([self.changed(0, id_of(i)) for i in [0, 5, 11]], [("ids", i) for i in [0, 5, 11]])
        self.assertEqual([self.changed(2, link_of(i)) for i in [0, 1]], [("links", i) for i in [0, 1]])
        self.assertEqual(self.changed(2, lambda r: r["parameters"].update(seed=1)), ("request_digest", None))
        self.assertEqual(self.changed(2, lambda r: r.update(fingerprint="0" * 64)), ("fingerprint", None))
        self.assertEqual(self.changed(7, lambda r: r["adapters"][1].update(digest="0" * 64)), ("adapters", 1))
        self.assertEqual(self.changed(3, lambda r: r["constraint"].update(text="[a-z]+")), ("constraint.digest", None))
        self.assertEqual(self.changed(6, lambda r: r["adapters"].append({"name": "nowhere", "digest": "", "weight": 1})), ("request_digest", None))
        self.assertEqual(self.changed(6, lambda r: r["adapters"][0].update(name="nowhere")), ("adapter_config.json", None))
        self.assertEqual(self.changed(0, lambda r: r.update(more=1)), ("more", None))
        self.assertEqual(self.changed(0, lambda r: r.pop("links")), ("links", None))

    def test_ids_beside_a_receipt_are_compared(self):
        answer = json.loads(json.dumps(self.answers[0]))
        answer["output_ids"][3] ^= 1
        status, (line,) = verify(answer)
        self.assertEqual((status, line["field"]), (1, "output_ids"))

    def test_every_choice_needs_a_receipt(self):
        answer = json.loads(json.dumps(self.answers[1]))
        del answer["choices"][1]["receipt"]
        status, (line,) = verify(answer)
        self.assertEqual((status, line["holds"], line["field"]), (1, False, "receipt"))

    def test_another_version_verifies(self):
        answer = json.loads(json.dumps(self.answers[0]))
        answer["receipt"]["library"] = "9.9.9"
        self.assertEqual(verify(answer)[0], 0)

    def test_another_class_is_another_fingerprint(self):
        for options in [["--kv", "int8"], ["--attention", "direct"], ["--weights", "int8"]]:
            status, (line,) = verify(self.answers[0], options=options)
            self.assertEqual((status, line["field"]), (1, "fingerprint"))
            self.assertIn("numerics 1, family gpt2", line["why"])

    def test_lines_without_a_receipt_do_not_hold(self):
        done = tenon("verify", "--model", TALES, stdin='{"id": "a"}\n[]\nno json\n')
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["id"], line["holds"]) for line in lines], [("a", False), (None, False), (None, False)])
        self.assertEqual(done.returncode, 1)

    def test_names_below_a_root(self):
        answer = json.loads(json.dumps(self.answers[6]))
        answer["receipt"]["adapters"][0]["name"] = "weather"
        status, (line,) = verify(answer, options=["--adapter-root", ADAPTERS])
        self.assertEqual((status, line), (0, {"id": 6, "holds": True}))
        answer["receipt"]["adapters"][0]["name"] = "shakespeare"
        status, (line,) = verify(answer, options=["--adapter-root", ADAPTERS])
        self.assertEqual((status, line["field"], line["position"]), (1, "adapters", 0))
        answer["receipt"]["adapters"][0]["name"] = "../adapters/weather"
        status, (line,) = verify(answer, options=["--adapter-root", ADAPTERS])
        self.assertEqual((status, line["holds"]), (1, False))


if __name__ == "__main__":
    support.main()
