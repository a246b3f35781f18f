"""How scripts/check-server asks a server: OpenAI's or LoRAX's routes, whole or as a stream, with the standard library.

`Client.ask` returns a dict. `state` is ok, refused (status 4xx or 501) or failed (5xx, silence, connection lost, not readable), and
`why` is the reason of the last two. An answer that is ok has `streamed`, `tokens` (None: not said) and `choices` of `text`, `finish` and
`logprobs`: [token, log-probability, {alternative: log-probability}] each. Log-probabilities are finite numbers, or None for null.
"""
import http.client
import json
import math
import urllib.parse


SILENCE = "no byte within the timeout"


class NoAnswer(Exception):
    pass


class Client:
    def __init__(self, url, api, model, key=None, timeout=120, fields=None):
        """`fields`: further members of each body, or of LoRAX's `parameters`. `timeout`: seconds without a byte."""
        self.url, self.api, self.model, self.timeout, self.fields = urllib.parse.urlsplit(url), api, model, timeout, fields or {}
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def ask(self, case, adapter=None, flip=False):
        """`flip`: as a stream if the case is to be answered whole, and the other way around."""
        stream = case["stream"] != flip
        path, body = (self.lorax if self.api == "lorax" else self.openai)(case, stream, adapter)
        try:
            return self.send(path, body, "logprobs" in case["options"])
        except NoAnswer as error:
            return {"state": "failed", "why": str(error)}
        except TimeoutError:
            return {"state": "failed", "why": SILENCE}
        except (OSError, http.client.HTTPException) as error:
            return {"state": "failed", "why": f"{type(error).__name__}: {error}"}
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            return {"state": "failed", "why": f"an answer that cannot be read: {type(error).__name__}: {error}"}

    # ---- bodies

    def openai(self, case, stream, adapter):
        options = dict(case["options"])
        schema = options.pop("schema", None)
        body = {"model": adapter or self.model, **options}
        if stream:
            body["stream"] = True
        if schema:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
        if case["route"] == "completions":
            return "/v1/completions", {**body, "prompt": case["prompt"], **self.fields}
        if "logprobs" in options:
            body |= {"logprobs": True, "top_logprobs": options["logprobs"]}
        messages = [{"role": "system", "content": case["system"]}] if case["system"] else []
        return "/v1/chat/completions", {**body, "messages": [*messages, {"role": "user", "content": case["prompt"]}], **self.fields}

    def lorax(self, case, stream, adapter):
        options = case["options"]
        parameters = {"max_new_tokens": options["max_tokens"], "details": True}
        if options["temperature"]:
            parameters |= {"do_sample": True, **{key: options[key] for key in ("temperature", "seed", "top_p") if key in options}}
        if "logprobs" in options:
            parameters["return_k_alternatives"] = options["logprobs"]
        if "stop" in options:
            parameters["stop"] = options["stop"]
        if "schema" in options:
            parameters["response_format"] = {"type": "json_object", "schema": options["schema"]}
        if adapter:
            parameters["adapter_id"] = adapter
        prompt = f"{case['system']}\n{case['prompt']}" if case["system"] else case["prompt"]
        return "/generate_stream" if stream else "/generate", {"inputs": prompt, "parameters": {**parameters, **self.fields}}

    # ---- answers

    def send(self, path, body, logprobs):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.url.hostname, self.url.port, timeout=self.timeout)
        try:
            connection.request("POST", self.url.path.rstrip("/") + path, json.dumps(body).encode(), self.headers)
            response = connection.getresponse()
            if response.status != 200:
                text = response.read().decode("utf-8", "replace")[:300]
                state = "refused" if 400 <= response.status < 500 or response.status == 501 else "failed"
                return {"state": state, "why": f"status {response.status}: {text}"}
            streamed = "text/event-stream" in response.getheader("Content-Type", "")
            events = read_events(response) if streamed else [from_json(response.read())]
        finally:
            connection.close()
        for event in events:
            if event.get("error") is not None:  # null: no error
                raise NoAnswer(f"status 200 with an error: {json.dumps(event)[:300]}")
        read = lorax_answer if self.api == "lorax" else openai_answer
        return {"state": "ok", "streamed": streamed, **checked(read(events, streamed, logprobs))}


def from_json(text):
    """The value of strict JSON. Python's parser alone takes NaN and Infinity, too."""
    def refuse(name):
        raise ValueError(f"{name} is not JSON")
    return json.loads(text, parse_constant=refuse)


def read_events(response):
    """The JSON of all events of a stream."""
    events = []
    for line in response:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data and data != b"[DONE]":
                events.append(from_json(data))
    if not events:
        raise NoAnswer("a stream without events")
    return events


def checked(answer):
    """The answer, whose parts have the types that verdicts read. Others raise ValueError."""
    def must(holds, what):
        if not holds:
            raise ValueError(what)
    is_number = lambda value: type(value) is int or type(value) is float and math.isfinite(value)
    must(answer["tokens"] is None or type(answer["tokens"]) is int, f"the number of tokens is {answer['tokens']!r}")
    for choice in answer["choices"]:
        must(isinstance(choice["text"], str), f"the text is {choice['text']!r}")
        must(isinstance(choice["finish"], (str, type(None))), f"the finish reason is {choice['finish']!r}")
        for token, value, others in choice["logprobs"] or []:
            must(isinstance(token, str), f"a token is {token!r}")
            for each in (value, *others.values()):
                must(each is None or is_number(each), f"a log-probability is {each!r}")
    return answer


def openai_answer(events, streamed, logprobs):
    choices, tokens = {}, None
    for event in events:
        tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
        for part in event.get("choices") or []:
            choice = choices.setdefault(part.get("index", 0), {"text": "", "finish": None, "logprobs": [] if logprobs else None})
            message = part.get("delta" if streamed else "message")
            choice["text"] += (part.get("text") if message is None else message.get("content")) or ""
            choice["finish"] = part.get("finish_reason") or choice["finish"]
            if logprobs:
                choice["logprobs"] += openai_logprobs(part.get("logprobs"))
    if not choices:
        raise NoAnswer("an answer without choices")
    return {"choices": [choices[index] for index in sorted(choices)], "tokens": tokens}


def openai_logprobs(found):
    if not found:
        return []
    if found.get("content") is not None:  # of chats
        return [[each["token"], each["logprob"], {other["token"]: other["logprob"] for other in each.get("top_logprobs") or []}]
                for each in found["content"]]
    tops = found.get("top_logprobs") or [None] * len(found.get("tokens") or [])
    return [[token, value, top or {}] for token, value, top in zip(found.get("tokens") or [], found.get("token_logprobs") or [], tops)]


def lorax_answer(events, streamed, logprobs):
    if streamed:
        tokens = [event["token"] for event in events if event.get("token")]
        last = events[-1]
    else:
        last, = events
        tokens = (last.get("details") or {}).get("tokens") or []
    if last.get("generated_text") is None:
        raise NoAnswer("a stream without its last event")
    details = last.get("details") or {}
    rows = [[token["text"], token["logprob"], {other["text"]: other["logprob"] for other in token.get("alternative_tokens") or []}]
            for token in tokens]
    finish = {"eos_token": "stop", "stop_sequence": "stop"}.get(details.get("finish_reason"), details.get("finish_reason"))
    return {"choices": [{"text": last["generated_text"], "finish": finish, "logprobs": rows if logprobs else None}],
            "tokens": details.get("generated_tokens")}
