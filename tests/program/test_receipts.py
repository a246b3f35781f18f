"""`"receipt": true` of tenon run, and tenon verify."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

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


def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=True).stdout


@unittest.skipUnless(shutil.which("openssl") and openssl("version") >= b"OpenSSL 3", "needs the program openssl 3")
class Signatures(ProgramTest):
    """Signed here by the recipe of docs/receipts.md, and checked by the program."""

    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.made = pathlib.Path(made.name)
        for name in ["ours", "other"]:
            (cls.made / name).write_bytes(openssl("genpkey", "-algorithm", "ed25519"))
            (cls.made / (name + ".pub")).write_bytes(openssl("pkey", "-in", cls.made / name, "-pubout"))
        lines = "".join(json.dumps({"id": i, "receipt": True, **request}) + "\n" for i, request in enumerate(REQUESTS))
        done = tenon("run", "--model", TALES, stdin=lines)
        assert done.returncode == 0, done.stderr
        cls.answers = [cls.signed(json.loads(line)) for line in done.stdout.splitlines()]

    @classmethod
    def sign(cls, receipt, name="ours"):
        der = openssl("pkey", "-in", cls.made / name, "-pubout", "-outform", "DER")
        receipt["key"] = hashlib.sha256(der).hexdigest()[:16]
        fields = {key: value for key, value in receipt.items() if key != "signature"}
        text = "tenon receipt\n" + json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        (cls.made / "text").write_bytes(text.encode())
        receipt["signature"] = openssl("pkeyutl", "-sign", "-rawin", "-inkey", cls.made / name, "-in", cls.made / "text").hex()

    @classmethod
    def signed(cls, answer, name="ours"):
        for each in answer.get("choices", [answer]):
            cls.sign(each["receipt"], name)
        return answer

    def verified(self, *answers, names=("ours",)):
        keys = [word for name in names for word in ("--public-key", self.made / (name + ".pub"))]
        return verify(*answers, options=keys)

    def test_signed_receipts_hold(self):
        right = [{"id": i, "holds": True} for i in range(len(REQUESTS))]
        self.assertEqual(self.verified(*self.answers), (0, right))
        self.assertEqual(self.verified(*self.answers, names=["other", "ours"]), (0, right))
        unchecked = [dict(line, signature="not checked") for line in right]
        self.assertEqual(verify(*self.answers), (0, unchecked))

    def test_the_signature_comes_first(self):
        def changes(value):
            """Values that a field of this type may have, too."""
            if isinstance(value, bool):
                return [not value]
            if isinstance(value, (int, float)):
                return [value + 1]
            if isinstance(value, str):
                return [value[:-1] + ("0" if value[-1:] != "0" else "1")]
            if isinstance(value, list) and value and isinstance(value[0], int):
                return [value[:-1] + [value[-1] ^ 1]]
            return []

        answer, wrong, names = self.answers[2], [], []
        for part in [(), ("parameters",)]:
            def at(receipt, part=part):
                return receipt["parameters"] if part else receipt

            for name, value in at(answer["receipt"]).items():
                for other in [] if name == "format" else changes(value):
                    copy = json.loads(json.dumps(answer))
                    if name == "finish_reason":
                        other = "stop" if value == "length" else "length"
                    at(copy["receipt"])[name] = other
                    wrong.append(copy)
                    names.append(name)
        self.assertGreaterEqual(len(wrong), 20)
        status, lines = self.verified(*wrong)
        self.assertEqual((status, len(lines)), (1, len(wrong)))
        for name, line in zip(names, lines):
            self.assertEqual((line["holds"], line["field"], line["position"]), (False, "signature", None), name)

    def test_a_receipt_with_no_signature_or_another(self):
        plain = json.loads(json.dumps(self.answers[0]))
        del plain["receipt"]["key"], plain["receipt"]["signature"]
        half = json.loads(json.dumps(self.answers[0]))
        del half["receipt"]["key"]
        choices = json.loads(json.dumps(self.answers[1]))
        del choices["choices"][1]["receipt"]["key"], choices["choices"][1]["receipt"]["signature"]
        other = self.signed(json.loads(json.dumps(self.answers[0])), "other")
        status, lines = self.verified(plain, half, choices, other)
        self.assertEqual([(line["holds"], line["field"]) for line in lines],
                         [(False, "signature"), (False, "key"), (False, "signature"), (False, "signature")])
        self.assertIn("is missing", lines[0]["why"])
        self.assertIn(other["receipt"]["key"], lines[3]["why"])
        self.assertEqual(status, 1)
        # A signature does not make a wrong receipt right.
        wrong = json.loads(json.dumps(self.answers[0]))
        wrong["receipt"]["ids"][3] ^= 1
        self.assertEqual([self.verified(self.signed(wrong))[1][0][key] for key in ["field", "position"]], ["ids", 3])

    def test_files_of_keys(self):
        for file, part in [("none", "none"), ("ours", "holds no public key"), ("text", "openssl pkey")]:
            (self.made / "text").write_text("text")
            done = tenon("verify", "--model", TALES, "--public-key", self.made / file)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--public-key", done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    support.main()
