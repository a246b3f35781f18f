"""Receipts over HTTP: every route that gives text has them, and `tenon verify` finds that they hold."""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import serving
from serving import ADAPTERS, ROOT, Server, ServerTest, eventually
from test_resume import Refused, events

KING = "The king said"
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
          "additionalProperties": False}
HEADER = {"x-tenon-receipt": "1"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"], "additionalProperties": False}}}
TEMPLATES = ROOT / "tests" / "chat" / "templates"
FIELDS = {"adapters", "constraint", "digest", "fingerprint", "finish_reason", "format", "ids", "library", "links", "parameters",
          "prompt_ids", "request_digest"}


def program():
    """The program beside the server; None: it was not built."""
    path = os.path.join(os.path.dirname(serving.PROGRAM), "tenon")
    return path if os.path.exists(path) else None


def verified(*answers, options=(), model=ADAPTERS.parent):
    """The lines of `tenon verify`."""
    if not program():
        raise unittest.SkipTest("tenon was not built")
    done = subprocess.run([program(), "verify", "--model", str(model), "--adapter-root", str(ADAPTERS), *map(str, options)],
                          input="".join(json.dumps(answer) + "\n" for answer in answers), capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(answers), done.stderr
    assert done.returncode == (0 if all(line.get("holds", line.get("same")) for line in lines) else 1), lines
    return lines


class ReceiptsTest(ServerTest):
    def assert_holds(self, *answers):
        for line in verified(*answers):
            self.assertTrue(line["holds"], line)


class Receipts(ReceiptsTest):
    FLAGS = ["--chat-template", "plain"]

    def test_each_route_has_them(self):
        lorax = self.generate(max_new_tokens=6, receipt=True)
        completion = self.complete(max_tokens=6, temperature=0.8, seed=5, receipt=True, n=2)
        chat = self.chat(max_tokens=6, receipt=True, response_format={"type": "json_object", "schema": SCHEMA})
        adapted = self.complete(max_tokens=6, model="weather", receipt=True)
        receipts = [lorax["receipt"], *(c["receipt"] for a in [completion, chat, adapted] for c in a["choices"])]
        for receipt in receipts:
            self.assertEqual(set(receipt), FIELDS)
            self.assertEqual(len(receipt["links"]), 8 * len(receipt["ids"]))
        self.assertEqual([r["parameters"]["seed"] for r in receipts[1:3]], [5, 6])
        self.assertEqual(receipts[4]["adapters"][0]["name"], "weather")
        self.assertEqual(json.loads(receipts[3]["constraint"]["text"]), SCHEMA)
        self.assert_holds(lorax, completion, chat, adapted, receipts[0])

    def test_a_changed_answer_does_not_hold(self):
        answer = self.complete(max_tokens=6, receipt=True)
        answer["choices"][0]["receipt"]["ids"][3] ^= 1
        line, = verified(answer)
        self.assertEqual((line["holds"], line["field"], line["position"]), (False, "ids", 3))

    def test_system_fingerprints_are_their_begin(self):
        for answer in [self.complete(max_tokens=2, receipt=True), self.chat(max_tokens=2, receipt=True)]:
            self.assertEqual("fp_" + answer["choices"][0]["receipt"]["fingerprint"][:16], answer["system_fingerprint"])

    def test_a_header_asks_for_them_too(self):
        for path, body in [("/v1/completions", {"prompt": KING, "max_tokens": 3}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": KING}], "max_tokens": 3})]:
            self.assertIn("receipt", self.server.post(path, body, headers=HEADER).json()["choices"][0])
            self.assertNotIn("receipt", self.server.post(path, body).json()["choices"][0])
            self.assertNotIn("receipt", self.server.post(path, body, headers={"x-tenon-receipt": "0"}).json()["choices"][0])
        refused = self.server.post("/generate", {"inputs": KING}, headers=HEADER)
        self.assertIn("x-tenon-receipt", refused.json()["error"])
        self.assertEqual(refused.status, 422)

    def test_streams_end_with_them(self):
        asked = {"prompt": KING, "max_tokens": 5, "temperature": 0, "seed": 3, "receipt": True}
        whole = self.openai("/v1/completions", asked)["choices"][0]["receipt"]
        chunks = self.openai_stream("/v1/completions", asked)
        found = [(c["choices"][0]["finish_reason"], c["choices"][0]["receipt"]) for c in chunks if "receipt" in c["choices"][0]]
        self.assertEqual(found, [("length", whole)])

    def test_neighbours_change_no_receipt(self):
        def one(i):
            return self.complete(max_tokens=12, temperature=0.9, seed=i % 3, receipt=True)["choices"][0]["receipt"]

        alone = [one(i) for i in range(3)]
        for i, receipt in enumerate(serving.all_at_once([lambda i=i: one(i) for i in range(9)])):
            self.assertEqual(receipt, alone[i % 3])

    def test_what_has_none_is_refused(self):
        self.refused({"inputs": KING, "parameters": {"receipt": True, "stop": ["a"]}}, 422, "validation",
                     "Input validation error: `receipt` does not go with `stop`")
        self.refused({"inputs": KING, "parameters": {"receipt": True}}, 422, "validation",
                     "Input validation error: `receipt` is not supported when streaming", path="/generate_stream")

    def test_answers_with_tools_have_them(self):
        loose = {"type": "function", "function": {"name": "look_far", "parameters": {"type": "object", "not": {"required": ["a"]}}}}
        answers = [self.chat(tools=[TOOL, loose], max_tokens=60, receipt=True, seed=3, **more) for more in
                   [{}, {"tool_choice": "auto", "parallel_tool_calls": False}]]
        answers += [self.chat(tools=[TOOL], max_tokens=60, receipt=True, seed=3, **more) for more in
                    [{"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "look"}}}, {"temperature": 0}]]
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
        answers.append(self.chat(tools=[TOOL], max_tokens=60, receipt=True, seed=3, response_format=form))
        self.assert_holds(*answers)
        receipts = [answer["choices"][0]["receipt"] for answer in answers]
        self.assertEqual({receipt["constraint"]["kind"] for receipt in receipts}, {"calls"})
        self.assertEqual(answers[2]["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "look")
        # Another constraint under a digest of its own is found by the request's digest, and a forged one by the tokens.
        forged = json.loads(json.dumps(answers[2]))
        constraint = forged["choices"][0]["receipt"]["constraint"]
        constraint["text"] = constraint["text"].replace('"text":false', '"text":true')
        constraint["digest"] = hashlib.sha256(constraint["text"].encode()).hexdigest()
        self.assertEqual(verified(forged)[0]["field"], "request_digest")


class OwnTemplate(unittest.TestCase):
    """Conversations with the model's own template, which `tenon verify` finds, too."""

    @contextlib.contextmanager
    def model_with(self, template):
        with tempfile.TemporaryDirectory(prefix="tenon-receipts-") as name:
            for each in ADAPTERS.parent.iterdir():
                os.symlink(each, pathlib.Path(name) / each.name)
            shutil.copy(TEMPLATES / (template + ".jinja"), pathlib.Path(name) / "chat_template.jinja")
            yield name

    def test_calls_in_every_style(self):
        for style in ["qwen25", "llama31_tools", "mistral_v3", "granite", "smollm2", "chatml"]:
            with self.subTest(style), self.model_with(style) as model, Server("--model", model) as server:
                asked = {"messages": [{"role": "user", "content": KING}], "tools": [TOOL], "max_tokens": 60, "seed": 3, "receipt": True}
                answers = [server.post("/v1/chat/completions", asked | more).json()
                           for more in [{}, {"temperature": 0}, {"tool_choice": "required"}]]
                self.assertEqual([line["holds"] for line in verified(*answers, model=model)], [True] * 3)

    def test_answers_are_replayed(self):
        said = {"messages": [{"role": "user", "content": KING}], "max_tokens": 8}
        bodies = [("/v1/completions", {"prompt": KING, "max_tokens": 8, "temperature": 0, "logprobs": 1}),
                  ("/v1/completions", {"prompt": KING, "max_tokens": 8, "seed": 5, "n": 2, "return_token_ids": True}),
                  ("/v1/completions", {"prompt": KING, "temperature": 0, "model": "weather"}),
                  ("/v1/chat/completions", said | {"seed": 2**64 - 1, "logprobs": True, "top_logprobs": 3}),
                  ("/v1/chat/completions", said | {"temperature": 0, "response_format": {"type": "json_schema", "json_schema": {
                      "name": "age", "schema": SCHEMA}}}),
                  ("/v1/chat/completions", said | {"seed": 1, "tools": [TOOL], "max_tokens": 60, "tool_choice": "required"}),
                  ("/v1/chat/completions", said | {"logprobs": True})]
        with self.model_with("chatml") as model, Server("--model", model) as server:
            lines = [{"id": i, "request": body, "response": server.post(path, body).json()} for i, (path, body) in enumerate(bodies)]
            found = verified(*lines, options=["--from-api", "-"], model=model)
        self.assertEqual([line["same"] for line in found], [True] * 6 + [None], found)
        self.assertEqual([line.get("logprob_difference") for line in found[:6]], [0, None, None, 0, None, None])
        self.assertEqual(list(found[6]["not_compared"]), ["request.seed"])
        self.assertLess(found[6]["logprob_difference"], 1e-5)


class SignedReceipts(ReceiptsTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name in ["first", "second"]:
            for words, file in [(["genpkey", "-algorithm", "ed25519"], name), (["pkey", "-in", cls.folder / name, "-pubout"], name + ".pub")]:
                (cls.folder / file).write_bytes(subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True).stdout)
        shutil.copy(cls.folder / "first", cls.folder / "key")
        cls.FLAGS = ["--chat-template", "plain", "--receipt-key", cls.folder / "key"]
        super().setUpClass()

    def signed_by(self, name, *answers):
        return [line["holds"] for line in verified(*answers, options=["--public-key", self.folder / (name + ".pub")])]

    def test_every_receipt_is_signed(self):
        answers = [self.generate(max_new_tokens=4, receipt=True), self.complete(max_tokens=4, seed=1, n=2, receipt=True),
                   self.chat(max_tokens=4, receipt=True), self.complete(max_tokens=4, model="weather", receipt=True)]
        chunks = self.openai_stream("/v1/completions", {"prompt": KING, "max_tokens": 4, "receipt": True})
        answers.append(next(c for c in chunks if "receipt" in c["choices"][0]))
        receipts = [answers[0]["receipt"], *(c["receipt"] for a in answers[1:] for c in a["choices"])]
        for receipt in receipts:
            self.assertEqual(set(receipt), FIELDS | {"key", "signature"})
        self.assertEqual(self.signed_by("first", *answers), [True] * len(answers))
        self.assertEqual(self.signed_by("second", answers[0]), [False])
        changed = json.loads(json.dumps(answers[0]))
        changed["receipt"]["library"] = "9.9.9"
        (line,) = verified(changed, options=["--public-key", self.folder / "first.pub"])
        self.assertEqual((line["holds"], line["field"]), (False, "signature"))

    def test_the_public_key_is_served(self):
        answer = self.server.get("/v1/receipt-key")
        self.assertEqual((answer.status, answer.text()), (200, (self.folder / "first.pub").read_text()))
        self.assertIn("/v1/receipt-key", self.server.get("/openapi.json").json()["paths"])

    def test_hangup_reads_the_key_again(self):
        with Server(*self.FLAGS[:2], "--receipt-key", self.folder / "now", wait=False) as none:
            self.assertEqual(none.ended(), 1)  # there is no such file yet
        shutil.copy(self.folder / "first", self.folder / "now")
        asked = {"prompt": KING, "max_tokens": 3, "receipt": True}
        with Server(*self.FLAGS[:2], "--receipt-key", self.folder / "now") as server:
            before = server.post("/v1/completions", asked).json()
            os.replace(shutil.copy(self.folder / "second", self.folder / "next"), self.folder / "now")
            server.signal(signal.SIGHUP)
            eventually(lambda: "the receipt key was read again" in server.text())
            after = server.post("/v1/completions", asked).json()
            (self.folder / "now").write_text("text")
            server.signal(signal.SIGHUP)
            eventually(lambda: "the receipt key was not read again, and nothing changes: --receipt-key" in server.text())
            kept = server.post("/v1/completions", asked).json()
            self.assertEqual(server.stop(), 0)
        self.assertEqual(self.signed_by("first", before, after), [True, False])
        self.assertEqual(self.signed_by("second", before, after, kept), [False, True, True])

    def test_streams_are_continued_under_the_same_key(self):
        (self.folder / "resume").write_text("a secret of at least thirty-two bytes")
        case = "/v1/completions", {"prompt": KING, "max_tokens": 6, "receipt": True}
        flags = ["--chat-template", "plain", "--resume-key-file", self.folder / "resume", "--receipt-key"]
        with Server(*flags, self.folder / "first") as a, Server(*flags, self.folder / "first") as b, Server(*flags, self.folder / "second") as c:
            whole = events(a, case)
            self.assertEqual(events(b, case, whole[2].id), whole[3:])
            with self.assertRaises(Refused) as caught:
                events(c, case, whole[2].id)
            self.assertEqual(caught.exception.status, 400)
            plain = case[0], dict(case[1], receipt=False)
            whole = events(a, plain)
            self.assertEqual(events(c, plain, whole[2].id), whole[3:])

    def test_wrong_settings(self):
        (self.folder / "text").write_text("text")
        (self.folder / "rsa").write_bytes(subprocess.run(["openssl", "genpkey", "-algorithm", "rsa"], check=True, capture_output=True).stdout)
        for file, part in [("none", "none"), ("text", "holds no private key"), ("first.pub", "holds no private key"), ("rsa", "rsaEncryption")]:
            done = serving.run("--port", 0, "--receipt-key", self.folder / file)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("--receipt-key", done.stderr)
            self.assertIn(part, done.stderr)

    def test_servers_without_a_key_have_no_route(self):
        with Server() as server:
            self.assertEqual(server.get("/v1/receipt-key").status, 404)
            self.assertNotIn("/v1/receipt-key", server.get("/openapi.json").json()["paths"])
            answer = server.post("/v1/completions", {"prompt": KING, "max_tokens": 3, "receipt": True}).json()
            self.assertEqual(set(answer["choices"][0]["receipt"]), FIELDS)


if __name__ == "__main__":
    serving.main()
