"""Streams of tenon-serve that survive a cut: copy this file into your project. It needs the standard library alone.

    from resuming_stream import resuming_stream

    urls = ["http://one:8080/v1/completions", "http://two:8080/v1/completions"]
    for event in resuming_stream(urls, {"prompt": "Once upon a time", "max_tokens": 200}):
        if event.data != "[DONE]":
            print(json.loads(event.data)["choices"][0]["text"], end="")

The servers need one --resume-key-file, and the same model and settings. `python3 resuming_stream.py URL BODY` prints
the events of a stream.
"""
import collections
import http.client
import json
import random
import ssl
import sys
import time
import urllib.parse

# One event of a stream: its data as text (JSON, or "[DONE]"), and the id by which the stream goes on after it.
Event = collections.namedtuple("Event", "data id")

# Statuses after which another try may help: too many requests, a timeout, a server or a proxy without a place.
TEMPORARY = {408, 429, 500, 502, 503, 504}
# Statuses that a body may get for its prediction: out of range, too large, not to be read.
TOO_MUCH = {400, 413, 422}
# Errors of a server that would come again: its request timeout, and a failure of its engine.
FINAL = {"timeout", "engine_failed", "generation"}
LONGEST_RETRY_AFTER = 60.0  # seconds


class StreamError(Exception):
    """The stream was refused, or was cut more often than `retries` allows. `status` is 0 without an HTTP answer."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


class Refused(StreamError):
    """One server refuses the stream. Another one may continue it."""


class Cut(Exception):
    """The stream ended too early, and can be continued. `pause`: seconds that the server asks to wait."""

    def __init__(self, message, status=0, pause=0.0):
        super().__init__(message)
        self.status, self.pause = status, pause


def resuming_stream(urls, body, headers=None, *, retries=10, pause=0.05, longest_pause=5.0, timeout=60.0, context=None,
                    on_cut=None):
    """Yields the events of a streamed answer, each once, whatever cuts the connection between them.

    - urls: the full URL of a route, or a list of such URLs on replicas, which are tried in turn. A replica that refuses
      the stream is left out until the next new event; StreamError follows when all of them have refused it.
    - body: the request as a dictionary. `stream` and `resumable` are set here.
    - retries: after a cut, the stream is tried at most this number of times again without a new event, then StreamError.
    - pause: seconds before the second of these tries. It doubles with each of them, up to longest_pause.
    - timeout: seconds without a byte. The server sends a comment each 15 s.
    - context: an ssl.SSLContext for https.
    - on_cut: called with the exception of each cut, and of each refusal that is not raised, for a log.
    """
    urls = [urls] if isinstance(urls, str) else list(urls)
    body = dict(body, stream=True, resumable=True)
    last, received, failed, place, refused, predicts = None, [], 0, 0, set(), True
    while True:
        place %= len(urls)
        if place in refused:
            place += 1
            continue
        sent = _continued(body, received) if predicts else body
        try:
            for event, done, text in _events(urls[place], sent, headers, last, timeout, context):
                last, failed, refused = event.id, 0, set()
                received.append(text)
                yield event
                if done:
                    return
            raise Cut("the stream ended early")
        except Refused as error:
            if sent is not body and error.status in TOO_MUCH:
                predicts = False  # the text that came so far may be what the server does not take
            else:
                predicts = True
                refused.add(place)
                if len(refused) == len(urls):
                    raise
            if on_cut:
                on_cut(error)
        except (Cut, OSError, http.client.HTTPException) as error:
            failed += 1
            place += 1
            if on_cut:
                on_cut(error)
            if failed > retries:
                raise StreamError("gave up after %d tries: %s" % (failed, error), getattr(error, "status", 0)) from error
            # The first try goes to the next replica at once.
            wait = 0 if failed == 1 else min(longest_pause, pause * 2 ** (failed - 2)) * random.uniform(0.5, 1)
            time.sleep(max(wait, getattr(error, "pause", 0.0)))


def _continued(body, received):
    """The same body, with the received text as prediction: the server verifies it many tokens at a time. A prediction
    of the caller stays where it begins with that text."""
    text = "".join(received)
    if body.get("echo") or body.get("return_full_text") or (body.get("parameters") or {}).get("return_full_text"):
        prompt = body.get("prompt", body.get("inputs"))
        text = text[len(prompt):] if isinstance(prompt, str) and text.startswith(prompt) else text
    own = body.get("prediction")
    content = own.get("content") if isinstance(own, dict) else None
    if not text or (isinstance(content, str) and content.startswith(text)):
        return body
    return dict(body, prediction={"type": "content", "content": text})


def _read(data):
    """Whether the event is the last one of its stream, and the text that it adds to the answer."""
    if data == "[DONE]":
        return True, ""
    event = json.loads(data)
    if "token" in event:  # LoRAX's form
        return event["generated_text"] is not None, "" if event["token"]["special"] else event["token"]["text"]
    choice = event["choices"][0] if event.get("choices") else {}
    return False, choice.get("text") or choice.get("delta", {}).get("content") or ""


def _events(url, body, headers, last, timeout, context):
    """The events of one connection, each with what _read says of it. Refused and StreamError where another try does not
    help; Cut, OSError or HTTPException where the stream ends early."""
    parts = urllib.parse.urlsplit(url)
    sent = dict({"Content-Type": "application/json"}, **(headers or {}))
    if last is not None:
        sent["Last-Event-ID"] = last
    connection = None
    try:
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        connection.request("POST", path, json.dumps(body).encode(), sent)
        response = connection.getresponse()
        if response.status != 200:
            _refuse(response)
        for fields in _blocks(response):
            data = "\n".join(fields["data"])
            if "id" not in fields:
                _fail(data)
            try:
                done, text = _read(data)
                text = str(text)
            except (ValueError, LookupError, TypeError, AttributeError):
                raise Cut("an event that cannot be read: %.200s" % data) from None
            yield Event(data, fields["id"]), done, text
    except (http.client.InvalidURL, ssl.SSLCertVerificationError) as error:
        raise Refused("%s: %s" % (url, error)) from error
    finally:
        if connection:
            connection.close()


def _blocks(response):
    """The fields of each event that is whole: its id, and the lines of its data. An event without data is none."""
    waiting, fields = b"", {}
    while piece := response.read1(65536):
        *lines, waiting = (waiting + piece).split(b"\n")
        for line in lines:
            try:
                line = line.removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise Cut("a line that is not UTF-8") from None
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if "data" in fields:
                    yield fields
                fields = {}
            elif name == "data":
                fields.setdefault("data", []).append(value)
            elif name == "id":
                fields["id"] = value


def _fail(data):
    """For an event without an id, which is no part of the answer: the server says why it ends the stream."""
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    error = event.get("error") if isinstance(event, dict) else None
    if not error:
        raise StreamError("the server does not know `resumable`: its events have no ids")
    if not {_code(error), event.get("error_type")}.isdisjoint(FINAL):
        raise StreamError(data)
    raise Cut(data)


def _code(error):
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


def _refuse(response):
    content = response.read(10000)
    text = "%d: %s" % (response.status, content.decode("utf-8", "replace"))
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if response.getheader("x-should-retry") == "false":
        raise StreamError(text, response.status)
    if response.status == 504 and isinstance(told, dict) and "timeout" in (told.get("error_type"), _code(told.get("error"))):
        raise StreamError(text, response.status)  # of the server, not of a proxy
    if response.status not in TEMPORARY:
        raise Refused(text, response.status)
    after = response.getheader("Retry-After", "")
    raise Cut(text, response.status, min(float(after), LONGEST_RETRY_AFTER) if after.isdecimal() else 0.0)


if __name__ == "__main__":
    for received in resuming_stream(sys.argv[1], json.loads(sys.argv[2])):
        print(received.data, flush=True)
