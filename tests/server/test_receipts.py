"""Receipts over HTTP: every route that gives text has them, and `tenon verify` finds that they hold."""
import json
import os
import subprocess

import serving
from serving import ADAPTERS, ServerTest

KING = "The king said"
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
          "additionalProperties": False}
HEADER = {"x-tenon-receipt": "1"}
FIELDS = {"adapters", "constraint", "digest", "fingerprint", "finish_reason", "format", "ids", "library", "links", "parameters",
          "prompt_ids", "request_digest"}


def program():
    """The program beside the server; None: it was not built."""
    path = os.path.join(os.path.dirname(serving.PROGRAM), "tenon")
    return path if os.path.exists(path) else None


class Receipts(ServerTest):
    FLAGS = ["--chat-template", "plain"]

    def verify(self, *answers):
        """The lines of `tenon verify` on answers of the server."""
        if not program():
            self.skipTest("tenon was not built")
        done = subprocess.run([program(), "verify", "--model", str(ADAPTERS.parent), "--adapter-root", str(ADAPTERS)],
                              input="".join(json.dumps(answer) + "\n" for answer in answers), capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), len(answers), done.stderr)
        self.assertEqual(done.returncode, 0 if all(line["holds"] for line in lines) else 1)
        return lines

    def assert_holds(self, *answers):
        for line in self.verify(*answers):
            self.assertTrue(line["holds"], line)

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
        line, = self.verify(answer)
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
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
        answer = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": KING}], "tools": [tool], "receipt": True})
        self.assertEqual(answer.status, 400)
        self.assertIn("receipt", answer.json()["error"]["message"])


if __name__ == "__main__":
    serving.main()
