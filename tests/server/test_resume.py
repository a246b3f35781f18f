"""Resumable streams: cut at each event, continued on other servers, and ids that are refused."""
import json
import pathlib
import random
import shutil
import sys
import tempfile
import time

import serving
from serving import ADAPTERS, ROOT, Server, ServerTest

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "clients"))
import resuming_stream  # noqa: E402
from resuming_stream import Event  # noqa: E402

# A sanitized server is slow: it continues after some events alone.
STEP = 4 if serving.is_sanitized() else 1
KING = "The king said"
SECRET = "a secret of at least thirty-two bytes"
QUESTION = [{"role": "user", "content": "Who is the king?"}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
FORMAT = {"type": "json_object", "schema": SCHEMA}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string", "maxLength": 6}}, "required": ["zone"], "additionalProperties": False}}}
USAGE = {"stream_options": {"include_usage": True}}

# (route, body). Those without a temperature of 0 or a seed draw, with a seed of the server.
LORAX = "/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 16, "do_sample": True, "details": True, "ignore_eos_token": True}}
COMPLETION = "/v1/completions", {"prompt": KING, "max_tokens": 16, "logprobs": 2, "ignore_eos": True} | USAGE
CHAT = "/v1/chat/completions", {"messages": QUESTION, "max_tokens": 16, "logprobs": True, "top_logprobs": 2} | USAGE
CASES = {
    "LoRAX, sampled": LORAX,
    "LoRAX, greedy": ("/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 16, "top_n_tokens": 2}}),
    "LoRAX, seed": ("/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 12, "do_sample": True, "seed": 7, "return_full_text": True}}),
    "LoRAX, stop strings": ("/generate_stream", {"inputs": KING, "parameters": {"max_new_tokens": 60, "stop": [" the", "."], "details": True}}),
    "LoRAX, schema": ("/generate_stream", {"inputs": "A name: ", "parameters": {"max_new_tokens": 60, "do_sample": True, "response_format": FORMAT}}),
    "LoRAX, adapter": ("/", {"inputs": KING, "stream": True, "parameters": {"max_new_tokens": 12, "do_sample": True, "adapter_id": "weather"}}),
    "LoRAX, merged adapters": ("/", {"inputs": KING, "stream": True, "parameters": {
        "max_new_tokens": 12, "do_sample": True, "merged_adapters": {"ids": ["weather", "shakespeare"], "weights": [0.5, 0.5]}}}),
    "LoRAX, conversation": ("/generate_stream", {"inputs": json.dumps(QUESTION), "parameters": {
        "max_new_tokens": 12, "do_sample": True, "apply_chat_template": True}}),
    "completion, sampled": COMPLETION,
    "completion, stop strings": ("/v1/completions", {"prompt": KING, "max_tokens": 60, "temperature": 0, "stop": [" the king", ".\n", "?"], "echo": True}),
    "completion, half characters": ("/v1/completions", {"prompt": KING, "max_tokens": 24, "temperature": 2, "seed": 3, "logprobs": 0, "return_token_ids": True}),
    "completion, echo with logprobs": ("/v1/completions", {"prompt": KING, "max_tokens": 12, "logprobs": 1, "echo": True} | USAGE),
    "completion, adapter": ("/v1/completions", {"prompt": KING, "max_tokens": 12, "model": "shakespeare"} | USAGE),
    "completion, schema": ("/v1/completions", {"prompt": "A name: ", "max_tokens": 60, "response_format": FORMAT} | USAGE),
    "completion, penalties": ("/v1/completions", {"prompt": KING, "max_tokens": 16, "repetition_penalty": 1.2, "presence_penalty": 0.5, "min_p": 0.01}),
    "chat, sampled": CHAT,
    "chat, greedy": ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 16, "temperature": 0}),
    "completion, receipt": ("/v1/completions", {"prompt": KING, "max_tokens": 12, "receipt": True}),
    "chat, call": ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 100, "tools": [CLOCK], "tool_choice": "required"} | USAGE),
}


def root_of(root, name):
    """A folder of adapters with the files of `name` as "cloud"."""
    if (root / "cloud").exists():
        shutil.rmtree(root / "cloud")
    shutil.copytree(ADAPTERS / name, root / "cloud")
    return root


class Refused(Exception):
    def __init__(self, status, error):
        super().__init__("%d %s" % (status, error))
        self.status, self.error = status, error


def parsed(block):
    """An Event of one block of a stream; None for a comment."""
    if block.startswith(b":"):
        return None
    lines = block.decode("utf-8").split("\n")
    if len(lines) != 2 or not lines[0].startswith("id: ") or not lines[1].startswith("data: "):
        raise AssertionError("an event must be a line of its id and a line of data: %r" % block)
    return Event(lines[1][6:], lines[0][4:])


def events(server, case, after=None, most=None, prediction=None, headers=None):
    """The events of a resumable stream, after the id `after`. With `most`, the client leaves after that number of them."""
    path, body = case
    body = dict(body, stream=True, resumable=True)
    if prediction is not None:
        body["prediction"] = {"type": "content", "content": prediction}
    found = []
    with server.stream(path, body, dict(headers or {}, **({"Last-Event-ID": after} if after else {}))) as stream:
        if stream.status != 200:
            raise Refused(stream.status, json.loads(stream.response.read()))
        waiting = b""
        while piece := stream.response.read1(65536):
            *blocks, waiting = (waiting + piece).split(b"\n\n")
            for event in filter(None, map(parsed, blocks)):
                found.append(event)
                if len(found) == most:
                    return found
        if waiting:
            raise AssertionError("the stream ends within an event: %r" % waiting)
    return found


def text_of(stream):
    return "".join(resuming_stream._read(event.data)[1] for event in stream)


def seed_of(event):
    return int(event.id.split(".")[2])


class ResumeTest(ServerTest):
    """Two servers with one key."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.key = cls.folder / "resume.key"
        cls.key.write_text(SECRET + "\n")
        cls.FLAGS = ["--resume-key-file", cls.key, "--chat-template", "plain"]
        super().setUpClass()
        cls.other = Server(*cls.FLAGS, "--batch", 4, "--stream-interval", 0)
        cls.addClassCleanup(cls.other.__exit__)

    def refuses(self, server, case, after, status, part, headers=None):
        """The continuation is refused in the form of its API, with `part` in the message. Returns the code of OpenAI's."""
        with self.assertRaises(Refused) as caught:
            events(server, case, after, headers=headers)
        error = caught.exception.error
        self.assertEqual(caught.exception.status, status, error)
        if not case[0].startswith("/v1"):
            self.assertEqual(set(error), {"error", "error_type"})
            self.assertIn(part, error["error"])
            return None
        self.assertEqual(set(error["error"]), {"message", "type", "param", "code"})
        self.assertIn(part, error["error"]["message"])
        return error["error"]["code"]


class Cuts(ResumeTest):
    def test_each_event_is_a_place_to_go_on_from(self):
        for name, case in CASES.items():
            with self.subTest(name):
                whole = events(self.server, case)
                self.assertEqual([int(event.id.split(".")[1]) for event in whole], list(range(1, len(whole) + 1)))
                self.assertTrue(resuming_stream._read(whole[-1].data)[0], whole[-1])
                for i, event in list(enumerate(whole))[::STEP]:
                    prediction = [None, text_of(whole[:i + 1]), "Something else was said."][i % 3]
                    rest = events([self.server, self.other][i % 2], case, event.id, prediction=prediction)
                    self.assertEqual(rest, whole[i + 1:], (name, i))

    def test_an_event_a_token(self):
        """Events do not depend on the time: a server that sends several tokens in a write makes the same ones."""
        whole = events(self.server, LORAX)
        self.assertEqual(len(whole), 16)
        for name in ["completion, stop strings", "chat, greedy", "LoRAX, greedy"]:
            one, two = events(self.server, CASES[name]), events(self.other, CASES[name])
            choices = [[json.loads(e.data).get("choices") or json.loads(e.data)["token"] for e in each if e.data != "[DONE]"] for each in [one, two]]
            self.assertEqual(choices[0], choices[1], name)

    def test_it_is_the_stream_of_its_seed(self):
        path, body = COMPLETION
        whole = [json.loads(event.data) for event in events(self.server, COMPLETION)[:-1]]
        drawn = seed_of(events(self.server, COMPLETION, most=1)[0])
        again = seed_of(events(self.server, COMPLETION, most=1)[0])
        self.assertNotEqual(drawn, again)
        self.assertEqual(len({(chunk["id"], chunk["created"]) for chunk in whole}), 1)
        self.assertEqual(whole[-1]["usage"]["completion_tokens"], 16)
        for case in [COMPLETION, CHAT]:
            stream = events(self.server, case)
            plain = self.openai_stream(case[0], case[1] | {"seed": seed_of(stream[0])})
            self.assertEqual([json.loads(event.data)["choices"] for event in stream[:-1]], [chunk["choices"] for chunk in plain])
            self.assertEqual(json.loads(stream[-2].data)["usage"], plain[-1]["usage"])

    def test_clients_that_leave(self):
        """The connection is closed in the middle of a stream, again and again."""
        for case in [LORAX, COMPLETION, CHAT]:
            got = events(self.server, case, most=1)
            while not resuming_stream._read(got[-1].data)[0]:
                got += events(self.choice(), case, got[-1].id, most=2, prediction=text_of(got) or None)
            self.assertEqual(got[1:], events(self.other, case, got[0].id))
        self.server.wait_quiet()
        self.other.wait_quiet()

    def choice(self):
        return random.choice([self.server, self.other])

    def test_a_prediction_is_verified_many_tokens_at_a_time(self):
        path, body = COMPLETION
        case = path, {"prompt": KING, "max_tokens": 80, "temperature": 0, "ignore_eos": True} | USAGE
        whole = events(self.server, case)
        before = self.other.metric("tenon_accepted_tokens_total")
        self.assertEqual(events(self.other, case, whole[70].id, prediction=text_of(whole[:71])), whole[71:])
        self.assertGreater(self.other.metric("tenon_accepted_tokens_total") - before, 20)
        self.assertNotIn("completion_tokens_details", json.loads(whole[-2].data)["usage"])

    def test_no_text_in_an_id(self):
        path, body = COMPLETION
        case = path, body | {"prompt": "zebra zebra", "user": "xylophone", "temperature": 0}
        for event in events(self.server, case):
            self.assertRegex(event.id, r"^1\.\d+\.\d+\.\d+\.\d+\.cmpl-[0-9a-v]{24}\.[0-9a-f]{40}\.[0-9a-f]{32}$")
        greedy = [events(self.server, CASES["LoRAX, greedy"], most=1)[0].id for _ in range(2)]
        for each in greedy:
            self.assertRegex(each, r"^1\.1\.0\.\d+\.\d+\.[0-9a-v]{24}\.[0-9a-f]{40}\.[0-9a-f]{32}$")
        tags = [each.split(".")[6] for each in greedy]
        for i in range(0, 40, 8):
            self.assertNotEqual(tags[0][i:i + 8], tags[1][i:i + 8])  # equal requests share no tag

    def test_a_header_asks_for_a_receipt(self):
        path, body = COMPLETION
        case, header = (path, body | {"max_tokens": 8}), {"x-tenon-receipt": "1"}
        whole = events(self.server, case, headers=header)
        receipts = [choice["receipt"] for event in whole[:-1] for choice in json.loads(event.data)["choices"] if "receipt" in choice]
        self.assertEqual(len(receipts), 1)
        self.assertEqual(len(receipts[0]["ids"]), 8)
        self.assertEqual(events(self.other, case, whole[2].id, headers=header), whole[3:])
        self.refuses(self.other, case, whole[2].id, 400, "another request")  # without the header

    def test_a_prediction_of_any_text(self):
        whole = events(self.server, COMPLETION)
        for prediction in ["a\0b", "\0", "\ud7ff\uffff", "<|endoftext|>", text_of(whole) + "\0"]:
            self.assertEqual(events(self.other, COMPLETION, whole[2].id, prediction=prediction), whole[3:], repr(prediction))

    def test_a_template_that_writes_the_time(self):
        model = self.folder / "clock"
        shutil.copytree(ROOT / "examples" / "models" / "tales", model)
        (model / "chat_template.jinja").write_text("{{ strftime_now('%H:%M:%S') }}{% for m in messages %} {{ m['content'] }}{% endfor %}")
        with Server("--resume-key-file", self.key, "--model", model) as server:
            whole = events(server, CHAT)
            time.sleep(1.1)
            self.assertEqual(events(server, CHAT, whole[3].id), whole[4:])
            self.assertEqual(server.stop(), 0)

    def test_after_a_kill(self):
        for case in [LORAX, COMPLETION, CHAT, CASES["LoRAX, adapter"]]:
            with Server(*self.FLAGS) as first:  # whose end is a SIGKILL
                got = events(first, case, most=3)
            rest = events(self.other, case, got[-1].id)
            self.assertEqual(got[1:] + rest, events(self.server, case, got[0].id))


class Refusals(ResumeTest):
    def test_changed_ids(self):
        for case in [LORAX, COMPLETION]:
            good = events(self.server, case, most=3)[-1].id
            for i, c in list(enumerate(good))[::STEP]:
                for other in "0" if c not in "0" else "1", "x" if c != "x" else "y", "A", ".", "-":
                    if other == c:
                        continue
                    with self.assertRaises(Refused, msg=(i, other)) as caught:
                        events(self.other, case, good[:i] + other + good[i + 1:], most=1)
                    self.assertIn(caught.exception.status, [400, 401, 403])
            for bad in [good[:-1], good[1:], good + "0", good.replace(".", ""), "1", "x", good + "." + good, "." * 7, "9" * 300]:
                with self.assertRaises(Refused, msg=bad) as caught:
                    events(self.other, case, bad, most=1)
                self.assertEqual(caught.exception.status, 400, bad)
            self.assertGreater(len(events(self.other, case, good)), 5)

    def test_other_bodies(self):
        path, body = COMPLETION
        after = events(self.server, COMPLETION, most=2)[-1].id
        seed = int(after.split(".")[2])
        for change in [{"prompt": KING + " "}, {"max_tokens": 17}, {"temperature": 0.5}, {"seed": seed}, {"seed": 1}, {"model": "weather"},
                       {"logprobs": 1}, {"user": "me"}, {"stop": ["x"]}, {"stream_options": {"include_usage": False}}]:
            self.assertEqual(self.refuses(self.other, (path, body | change), after, 400, "another request"), None)
        self.refuses(self.other, CHAT, after, 400, "another request")
        path, body = LORAX
        after = events(self.server, LORAX, most=2)[-1].id
        self.refuses(self.other, ("/", body), after, 400, "another request")
        for change in [{"seed": 1}, {"max_new_tokens": 15}, {"details": False}, {"adapter_id": "weather"}]:
            self.refuses(self.other, (path, {"inputs": KING, "parameters": body["parameters"] | change}), after, 400, "another request")
        same = json.dumps(dict(body, stream=True, resumable=True), indent=3).encode()
        with self.server.stream(path, same, {"Last-Event-ID": after}) as stream:
            self.assertEqual(stream.status, 200)  # spaces change no request

    def test_another_key_of_the_api(self):
        keys = self.folder / "keys"
        keys.write_text("sk-a name=team\nsk-a2 name=team\nsk-b name=others\n")
        with Server(*self.FLAGS, "--api-key-file", keys) as server:
            as_key = lambda key: {"X-Api-Key": key}
            for case, status in [(COMPLETION, 403), (LORAX, 401)]:
                whole = events(server, case, headers=as_key("sk-a"))
                self.assertEqual(events(server, case, whole[4].id, headers=as_key("sk-a2")), whole[5:])
                code = self.refuses(server, case, whole[4].id, status, "another API key", as_key("sk-b"))
                self.assertIn(code, [None, "stream_of_another_key"])
                key = "inputs" if "inputs" in case[1] else "prompt"
                for guess in [KING, KING + "?", "Something else"]:  # another client cannot find out what was asked
                    body = case[1] | {key: guess}
                    self.refuses(server, (case[0], body), whole[4].id, status, "another API key", as_key("sk-b"))
                self.refuses(self.other, case, whole[4].id, status, "another API key")  # which has no keys
            self.assertEqual(server.stop(), 0)

    def test_other_servers(self):
        path, body = COMPLETION
        case = path, body | {"model": "tales"}
        after = events(self.server, case, most=2)[-1].id
        key = self.folder / "other.key"
        key.write_text(SECRET + "!")
        with Server("--resume-key-file", key, "--chat-template", "plain") as server:
            self.refuses(server, case, after, 400, "--resume-key-file")
        model = self.folder / "tales"
        shutil.copytree(ROOT / "examples" / "models" / "tales", model)
        weights = bytearray((model / "model.safetensors").read_bytes())
        weights[-4] ^= 1  # the lowest bit of a weight
        (model / "model.safetensors").write_bytes(weights)
        with Server(*self.FLAGS, "--model", model) as server:
            self.assertEqual(self.refuses(server, case, after, 400, "another engine"), "stream_of_another_engine")
        with Server(*self.FLAGS, "--served-model-name", "tales,tales-2") as server:
            self.assertGreater(len(events(server, case, after)), 5)

    def test_an_adapter_of_other_content(self):
        servers = []
        path, body = COMPLETION
        case = path, body | {"model": "sky"}
        for name in ["weather", "shakespeare", "weather"]:
            root = self.folder / ("root-%d" % len(servers))
            shutil.copytree(ADAPTERS / name, root / "sky")
            servers.append(Server(*self.FLAGS, "--adapter-root", root))
            self.addCleanup(servers[-1].__exit__)
        whole = events(servers[0], case)
        self.refuses(servers[1], case, whole[3].id, 400, "adapter")
        self.assertEqual(events(servers[2], case, whole[3].id), whole[4:])

    def test_an_adapter_that_cannot_be_used(self):
        """Its lease is taken before the request is submitted, with the errors of other requests."""
        root = self.folder / "root-broken"
        shutil.copytree(ADAPTERS / "weather", root / "broken")
        (root / "broken" / "adapter_model.safetensors").write_bytes(b"no tensors")
        with Server(*self.FLAGS, "--adapter-root", root) as server:
            for path, body in [COMPLETION, LORAX]:
                for name in ["nothing", "broken"]:
                    asked = body | {"model": name} if "prompt" in body else body | {"parameters": body["parameters"] | {"adapter_id": name}}
                    plain = server.post(path, asked | {"stream": True} if "prompt" in body else asked)
                    self.assertIn(plain.status, [400, 404, 424])
                    with self.assertRaises(Refused) as caught:
                        events(server, (path, asked))
                    self.assertEqual((caught.exception.status, caught.exception.error), (plain.status, plain.json()))
            self.assertEqual(server.stop(), 0)

    def test_an_adapter_that_is_replaced(self):
        path, body = COMPLETION
        case = path, body | {"model": "cloud"}
        root = self.folder / "root-cloud"
        flags = ["--adapter-root", root_of(root, "weather"), "--api-key", "sk-admin", "--enable-adapter-admin"]
        with Server(*self.FLAGS, *flags) as server:
            server.key = "sk-admin"
            whole = events(server, case)
            for name, right in [("weather", True), ("shakespeare", False), ("weather", True)]:
                self.assertEqual(server.post("/v1/unload_lora_adapter", {"lora_name": "cloud"}).status, 200)
                root_of(root, name)
                if right:
                    self.assertEqual(events(server, case, whole[3].id), whole[4:])
                else:
                    self.refuses(server, case, whole[3].id, 400, "adapter")
            self.assertEqual(server.stop(), 0)

    def test_its_time_is_over(self):
        with Server(*self.FLAGS, "--resume-timeout", 4) as server:
            after = events(server, LORAX, most=2)[-1].id
            self.assertGreater(len(events(self.other, LORAX, after)), 5)  # the id says when
            time.sleep(5.5)
            self.refuses(self.other, LORAX, after, 400, "expired")

    def test_what_is_no_stream_of_one_answer(self):
        def refused(path, body, param, status=400):
            self.refused_openai(path, body | {"resumable": True}, status, "invalid_request_error", param)

        refused("/v1/completions", {"prompt": KING}, "resumable")
        refused("/v1/completions", {"prompt": KING, "stream": True, "n": 2}, "resumable")
        refused("/v1/completions", {"prompt": [KING, KING], "stream": True}, "resumable")
        refused("/v1/chat/completions", {"messages": QUESTION}, "resumable")
        refused("/v1/chat/completions", {"messages": QUESTION, "stream": True, "n": 2}, "resumable")
        refused("/v1/responses", {"input": "Who?", "stream": True}, "resumable")
        prefix = "Input validation error: `resumable`"
        self.refused({"inputs": KING, "resumable": True}, 422, "validation", prefix)
        self.refused({"inputs": KING, "resumable": True}, 422, "validation", prefix, path="/")
        self.refused({"inputs": KING, "parameters": {"resumable": True}}, 422, "validation", prefix, path="/generate_stream")
        answer = self.server.post("/v1/completions", {"prompt": KING, "stream": True}, headers={"Last-Event-ID": events(self.server, COMPLETION, most=1)[0].id})
        self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "Last-Event-ID"))
        for foreign in ["17", "x" * 300]:  # of another program
            answer = self.server.post("/v1/completions", {"prompt": KING}, headers={"Last-Event-ID": foreign})
            self.assertEqual(answer.status, 200, answer)
            self.refuses(self.server, COMPLETION, foreign, 400, "Last-Event-ID")
        plain = {"inputs": KING, "parameters": {"max_new_tokens": 4}, "resumable": False}
        self.assertEqual(self.server.post("/generate", plain).status, 200)

    def test_without_a_key(self):
        with Server("--chat-template", "plain") as server:
            for case, status in [(LORAX, 422), (COMPLETION, 400), (CHAT, 400)]:
                self.refuses(server, case, None, status, "--resume-key-file")
            self.assertEqual(server.stop(), 0)
        spaces = self.folder / "spaces.key"
        spaces.write_text(" " * 32 + "\n")
        with Server("--resume-key-file", spaces, "--chat-template", "plain") as server:  # a key may have any bytes
            self.assertGreater(len(events(server, LORAX)), 5)
        short = self.folder / "short.key"
        short.write_text("short\n")
        for path in [short, self.folder / "none.key", self.folder]:
            done = serving.run("--resume-key-file", path, "--port", 0)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("--resume-key-file", done.stderr)


if __name__ == "__main__":
    serving.main()
