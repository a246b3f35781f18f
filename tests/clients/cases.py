"""The runner of the client checks: cases of one client against one server, a line a case, exit status 1 on a failure.

A check file imports a client library, marks functions with @case, and calls main(). The interpreter is that of a virtual
environment with the client's pinned packages (see run.py). This module needs only the standard library.
"""
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import serving  # noqa: E402  (reads the program's path from the arguments)

warnings.filterwarnings("ignore")
# No telemetry, no prices from the network, and no progress bars.
os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", LITELLM_LOCAL_MODEL_COST_MAP="True", DO_NOT_TRACK="1", LANGCHAIN_TRACING_V2="false",
                  LANGSMITH_TRACING="false", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")

MODEL = "tales"
ADAPTER = "weather"
HUB_ADAPTER = "acme/weather-lora"  # the same adapter, in a folder two levels below the root
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "13_serving.py"
PROMPT = "The king said"
QUESTION = "Who is the king?"
KEY = "not-needed"
CASES = []


def case(function=None, *, not_yet=None):
    """Marks a case. `not_yet`: a pattern of the error that the case gives today; without that error the case fails."""
    if function is None:
        return lambda f: case(f, not_yet=not_yet)
    function.not_yet = not_yet
    CASES.append(function)
    return function


def example():
    """examples/13_serving.py as a module."""
    spec = importlib.util.spec_from_file_location("serving_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the server

class Tenon(serving.Server):
    """The default model with a chat template and its adapters, one of them also as HUB_ADAPTER."""

    def __init__(self):
        self.root = tempfile.TemporaryDirectory(prefix="tenon-clients-")
        for name in serving.NAMES:
            shutil.copytree(serving.ADAPTERS / name, pathlib.Path(self.root.name, name))
        shutil.copytree(serving.ADAPTERS / ADAPTER, pathlib.Path(self.root.name, HUB_ADAPTER))
        cache = pathlib.Path(self.root.name, "hub-cache")
        cache.mkdir()
        self.cached = example().hub_cache(cache, [serving.ADAPTERS / name for name in serving.NAMES])  # names of the hub
        super().__init__("--chat-template", "plain", "--adapter-root", self.root.name, "--hub-cache", cache)
        self.url = "http://127.0.0.1:%d" % self.port
        self.v1 = self.url + "/v1"

    def __exit__(self, *error):
        super().__exit__(*error)
        self.root.cleanup()

    # References: plain requests without any client library.

    def ok(self, path, body):
        answer = self.post(path, body)
        if answer.status != 200:
            raise AssertionError("reference request %s failed: %r" % (body, answer))
        return answer.json()

    def completion(self, prompt=PROMPT, max_tokens=16, **more):
        """The greedy continuation, from /v1/completions."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more}
        return self.ok("/v1/completions", body)["choices"][0]["text"]

    def answer(self, messages, max_tokens=16, **more):
        """The greedy answer, from /v1/chat/completions."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **more}
        return self.ok("/v1/chat/completions", body)["choices"][0]["message"]["content"]

    def reply(self, content=QUESTION, max_tokens=16, **more):
        """The greedy answer to one message of a user."""
        return self.answer([{"role": "user", "content": content}], max_tokens, **more)

    def stop_word(self, prompt=PROMPT, max_tokens=16):
        """(greedy text, a word in the middle of it with its space): for stop strings."""
        text = self.completion(prompt, max_tokens)
        word = next(w for w in re.findall(r" [A-Za-z]{2,}", text)[1:] if text.index(w) > 3)
        return text, word

    def was_dropped(self, before):
        """Waits until no request is open and one more than `before` was dropped by its client."""
        serving.eventually(lambda: self.dropped() > before and self.metric("tenon_requests_open") == 0,
                           lambda: "no request was dropped: %s" % self.failures())

    def dropped(self):
        return self.failures().get("dropped", 0)


tenon: Tenon = None  # set by main


# ---- assertions

def equal(got, wanted, what="value"):
    if got != wanted:
        raise AssertionError("%s: got %r, wanted %r" % (what, got, wanted))


def differs(one, other, what="texts"):
    if one == other:
        raise AssertionError("%s must differ, both are %r" % (what, one))


def holds(condition, what):
    if not condition:
        raise AssertionError(what() if callable(what) else what)


def raises(kind, function, pattern=""):
    """The exception that the function raises; it must be of this kind, with a text that matches the pattern."""
    try:
        function()
    except kind as error:
        if not re.search(pattern, str(error)):
            raise AssertionError("%s does not say %r: %s" % (type(error).__name__, pattern, error)) from error
        return error
    raise AssertionError("no exception, wanted %s" % getattr(kind, "__name__", kind))


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, serving.PATIENCE))


# ---- a schema that several clients use, and its check

PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "mood", "age"],
          "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 10}, "mood": {"enum": ["glad", "sad"]},
                         "age": {"type": "integer", "minimum": 0, "maximum": 120}}}
MOODS = ["glad", "sad"]


def is_person(value):
    """Raises unless the value, or the JSON text, satisfies PERSON."""
    person = json.loads(value) if isinstance(value, str) else value
    equal(set(person), {"name", "mood", "age"}, "keys")
    holds(isinstance(person["name"], str) and 1 <= len(person["name"]) <= 10, "name: %r" % person["name"])
    holds(person["mood"] in MOODS, "mood: %r" % person["mood"])
    holds(type(person["age"]) is int and 0 <= person["age"] <= 120, "age: %r" % person["age"])


# ---- running

def outcome(function):
    """("pass" | "not yet" | "FAIL", a line with the reason)."""
    try:
        result = function()
        if asyncio.iscoroutine(result):
            run(result)
    except Exception as error:
        text = " ".join(("%s: %s" % (type(error).__name__, error)).split())
        if function.not_yet and not isinstance(error, AssertionError) and re.search(function.not_yet, text):
            return "not yet", text[:160]
        if os.environ.get("TENON_CLIENTS_TRACE"):
            traceback.print_exc()
        return "FAIL", text[:600]
    if function.not_yet:
        return "FAIL", "works now: take not_yet away from this case"
    return "pass", ""


def versions(packages):
    return ", ".join("%s %s" % (name, importlib.metadata.version(name)) for name in packages)


def main(*packages):
    """Starts the server, runs the cases (those that match the pattern in the second argument), and exits."""
    global tenon
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    report = os.environ.get("TENON_CLIENTS_REPORT")
    print("== " + versions(packages), flush=True)
    counts = {"pass": 0, "not yet": 0, "FAIL": 0}
    rows = []
    with Tenon() as tenon:
        for function in CASES:
            if not re.search(pattern, function.__name__):
                continue
            start = time.monotonic()
            result, why = outcome(function)
            counts[result] += 1
            title = function.__name__.replace("_", " ")
            rows.append({"title": title, "result": result, "why": why})
            print("%-8s%5.0f ms  %s%s" % (result, (time.monotonic() - start) * 1e3, title, "\n    " + why if why else ""), flush=True)
    if report:
        pathlib.Path(report).write_text(json.dumps({"versions": versions(packages), "cases": rows}))
    total = sum(counts.values())
    print("%d passed, %d failed, %d not yet built" % (counts["pass"], counts["FAIL"], counts["not yet"]))
    sys.exit(1 if counts["FAIL"] or total == 0 else 0)
