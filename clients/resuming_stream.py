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
import sys
import time
import urllib.parse

# One event of a stream: its data as text (JSON, or "[DONE]"), and the id by which the stream goes on after it.
Event = collections.namedtuple("Event", "data id")

# Statuses after which another try may help: too many requests, a timeout, a server or a proxy without a place.
TEMPORARY = {408, 429, 500, 502, 503, 504}


class StreamError(Exception):
    """The stream was refused, or was cut more often than `retries` allows. `status` is 0 without an HTTP answer."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


class Cut(Exception):
    """The stream ended too early, and can be continued. `pause`: seconds that the server asks to wait."""

    def __init__(self, message, status=0, pause=0.0):
        super().__init__(message)
        self.status, self.pause = status, pause


def resuming_stream(urls, body, headers=None, *, retries=10, pause=0.05, longest_pause=5.0, timeout=60.0, context=None,
                    on_cut=None):
    """Yields the events of a streamed answer, each once, whatever cuts the connection between them.

    - urls: the full URL of a route, or a list of such URLs on replicas, which are tried in turn.
    - body: the request as a dictionary. `stream` and `resumable` are set here.
    - retries: the number of tries without a new event before StreamError.
    - pause: seconds before the second of these tries. It doubles with each of them, up to longest_pause.
    - timeout: seconds without a byte. The server sends a comment each 15 s.
    - context: an ssl.SSLContext for https.
    - on_cut: called with the exception of each cut, for a log.
    """
    urls = [urls] if isinstance(urls, str) else list(urls)
    body = dict(body, stream=True, resumable=True)
    last, received, failed, place = None, [], 0, 0
    while True:
        try:
            for event in _events(urls[place % len(urls)], _continued(body, received), headers, last, timeout, context):
                last, failed = event.id, 0
                done, text = _read(event.data)
                received.append(text)
                yield event
                if done:
                    return
            raise Cut("the stream ended early")
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
    """The same body, with the received text as prediction: the server verifies it many tokens at a time."""
    text = "".join(received)
    if body.get("echo") or body.get("return_full_text"):
        prompt = body.get("prompt")
        text = text[len(prompt):] if isinstance(prompt, str) and text.startswith(prompt) else ""
    return dict(body, prediction={"type": "content", "content": text}) if text else body


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
    """The events of one connection. Cut, OSError or HTTPException where it ends early."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    sent = dict({"Content-Type": "application/json"}, **(headers or {}))
    if last is not None:
        sent["Last-Event-ID"] = last
    try:
        connection.request("POST", parts.path + ("?" + parts.query if parts.query else ""), json.dumps(body).encode(), sent)
        response = connection.getresponse()
        if response.status != 200:
            _refuse(response)
        waiting = b""
        while piece := response.read1(65536):
            *whole, waiting = (waiting + piece).split(b"\n\n")
            for each in whole:
                fields = dict(line.split(": ", 1) for line in each.decode().split("\n") if not line.startswith(":"))
                if not fields:
                    continue  # a comment
                if "id" not in fields:  # no part of the answer: the server says why it ends the stream
                    raise Cut(fields.get("data", "an event without an id"))
                yield Event(fields["data"], fields["id"])
    finally:
        connection.close()


def _refuse(response):
    text = "%d: %s" % (response.status, response.read(10000).decode("utf-8", "replace"))
    if response.status not in TEMPORARY:
        raise StreamError(text, response.status)
    after = response.getheader("Retry-After", "")
    raise Cut(text, response.status, float(after) if after.isdigit() else 0.0)


if __name__ == "__main__":
    for received in resuming_stream(sys.argv[1], json.loads(sys.argv[2])):
        print(received.data, flush=True)
