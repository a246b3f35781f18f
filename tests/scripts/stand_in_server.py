"""A server with OpenAI's routes whose answers are drawn from a digest of the request, and which has one fault on demand.

Without a fault it honours each field that scripts/check-server sends. FAULTS names the faults.
"""
import hashlib
import http.server
import json
import random
import threading
import time

WORDS = ["the", "a", "and", "boat", "lamp", "mill", "slow", "glad.", "rope,", "night", "fog", "bell", "of", "two", "keys", "rain"]
FAULTS = {
    "crowd": "texts differ while other requests run", "logprobs_crowd": "log-probabilities differ in the last digit while other requests run",
    "warm": "texts differ from the second time on", "order": "texts depend on the previous request", "whole": "streams have another text",
    "seed": "samples are drawn anew each time", "temperature": "all samples are the greedy answer", "schema": "schemas are ignored",
    "stop": "stop strings are ignored", "max_tokens": "answers have all their tokens", "finish_reason": "cut answers say stop",
    "n": "one answer for all n", "logit_bias": "biases are ignored", "logprobs": "no log-probabilities are sent",
    "stream": "each answer is a stream", "adapter": "adapters are ignored", "adapter_crowd": "adapters change places while others run",
    "refuse": "log-probabilities, schemas and biases are refused", "error": "n gets status 500", "hang": "biases get no answer",
    "overload": "a crowd gets status 429", "streams_only": "whole answers are refused", "null_error": "whole answers have a null error",
    "null_logprobs": "log-probabilities are null", "text_logprobs": "log-probabilities are texts", "nan": "log-probabilities are NaN",
    "usage": "the number of tokens is a text"}
LENGTH = 34  # words of an answer before its end


def digest(*parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def instance(schema, rng):
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema["type"] == "boolean":
        return rng.random() < 0.5
    return {name: instance(member, rng) for name, member in schema["properties"].items()}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.running += 1
            previous, server.previous = server.previous, body.get("prompt") or body["messages"]
        try:
            if server.fault in ("crowd", "logprobs_crowd", "adapter_crowd", "overload"):
                time.sleep(0.01)  # so that requests meet
            self.answer(body, server.running > 1, previous)
        finally:
            with server.lock:
                server.running -= 1

    def answer(self, body, is_crowd, previous):
        fault = self.server.fault
        if fault == "hang" and "logit_bias" in body:
            return time.sleep(5)
        if fault == "refuse" and body.keys() & {"logprobs", "response_format", "logit_bias"}:
            return self.send(400, {"error": {"message": "no such field"}})
        if fault == "streams_only" and not body.get("stream"):
            return self.send(400, {"error": {"message": "stream must be true"}})
        if fault == "error" and "n" in body:
            return self.send(500, {"error": {"message": "broken"}})
        if fault == "overload" and is_crowd:
            return self.send(429, {"error": {"message": "too many"}})
        choices = [self.choice(body, index, is_crowd, previous) for index in range(1 if fault == "n" else body.get("n", 1))]
        if body.get("stream") or fault == "stream":
            return self.send_stream(choices, "messages" in body)
        for each in choices:
            if "messages" in body:
                each["message"] = {"role": "assistant", "content": each.pop("text")}
        tokens = sum(each.pop("tokens") for each in choices)
        answer = {"id": str(random.random()), "choices": choices, "usage": {"completion_tokens": str(tokens) if fault == "usage" else tokens}}
        return self.send(200, answer | ({"error": None} if fault == "null_error" else {}))

    def choice(self, body, index, is_crowd, previous):
        fault = self.server.fault
        prompt, model = body.get("prompt") or body["messages"], body["model"]
        sampled = body["temperature"] > 0 and fault != "temperature"
        drawn = [body["temperature"], body.get("top_p"), body["seed"], index] if sampled else None
        if fault == "adapter":
            model = "base"
        elif fault == "adapter_crowd" and is_crowd and model != "base":
            model = "another"
        salt = [digest(prompt)[0] < "6" and fault == "crowd" and is_crowd, fault == "order" and previous,
                fault == "seed" and sampled and random.random(), fault == "whole" and body.get("stream")]
        if fault == "warm":
            with self.server.lock:
                salt.append(digest(prompt, drawn) in self.server.seen)
                self.server.seen.add(digest(prompt, drawn))
        rng = random.Random(digest(prompt, model, drawn, salt))
        if "response_format" in body and fault != "schema":
            words = [json.dumps(instance(body["response_format"]["json_schema"]["schema"], rng))]
        elif "logit_bias" in body and fault != "logit_bias":
            words = [f"<{next(iter(body['logit_bias']))}>"] * LENGTH
        else:
            words = [rng.choice(WORDS) for _ in range(LENGTH)]
        return self.cut(body, words, index, is_crowd)

    def cut(self, body, words, index, is_crowd):
        fault, finish = self.server.fault, "stop"
        if len(words) > body["max_tokens"] and fault != "max_tokens":
            words, finish = words[:body["max_tokens"]], "stop" if fault == "finish_reason" else "length"
        text = " ".join(words)
        for stop in body.get("stop", []) if fault != "stop" else []:
            if stop in text:
                text, finish = text[:text.index(stop)], "stop"
        logprobs = None
        if "logprobs" in body and fault != "logprobs":
            off = 1e-7 if fault == "logprobs_crowd" and is_crowd else 0
            value = lambda word: {"null_logprobs": None, "text_logprobs": "-0.5", "nan": float("nan")}.get(fault, -len(word) / 16 - off)
            rows = [(word, value(word), {word: value(word), "?": -9.5}) for word in words]
            if "messages" in body:
                logprobs = {"content": [{"token": word, "logprob": value, "top_logprobs": [{"token": t, "logprob": v} for t, v in top.items()]}
                                        for word, value, top in rows]}
            else:
                logprobs = {"tokens": [row[0] for row in rows], "token_logprobs": [row[1] for row in rows], "top_logprobs": [row[2] for row in rows]}
        return {"index": index, "text": text, "finish_reason": finish, "logprobs": logprobs, "tokens": len(words)}

    def send(self, status, content, kind="application/json"):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_stream(self, choices, is_chat):
        events = []
        for each in choices:
            half = len(each["text"]) // 2
            for text, last in ((each["text"][:half], False), (each["text"][half:], True)):
                part = {"delta": {"content": text}} if is_chat else {"text": text}
                events.append({"choices": [{"index": each["index"], **part, "logprobs": each["logprobs"] if last else None,
                                            "finish_reason": each["finish_reason"] if last else None}]})
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + ": a comment\n\ndata: [DONE]\n\n"
        self.send(200, lines.encode(), "text/event-stream; charset=utf-8")


class StandIn(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def __init__(self, fault=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault, self.lock, self.running, self.previous, self.seen = fault, threading.Lock(), 0, None, set()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self):
        self.shutdown()
        self.server_close()
