"""The reference for tests of chat templates: jinja2 with the settings and functions of transformers.

The settings are those of transformers' utils/chat_template_utils.py, version 4.57: an ImmutableSandboxedEnvironment with
trim_blocks, lstrip_blocks, loop controls, the statement `generation`, and tojson without HTML escapes.
"""
import copy
import datetime
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 5, 7)  # the clock of every test
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENVIRONMENT = environment()


def tag_final_message(messages):
    """The messages with the tag appended to the last text, and that text."""
    messages = copy.deepcopy(messages)
    content = messages[-1]["content"]
    if isinstance(content, str):
        messages[-1]["content"] += TAG
        return messages, content
    block = next(block for block in reversed(content) if "text" in block)
    text = block["text"]
    block["text"] += TAG
    return messages, text


def render(request):
    """The prompt of a request: {"template", "messages", "tools", ...}, as apply_chat_template makes it."""
    messages = request.get("messages", [])
    final = None
    if request.get("continue_final_message"):
        messages, final = tag_final_message(messages)
    variables = {**request.get("special_tokens", {}), **request.get("kwargs", {})}
    text = ENVIRONMENT.from_string(request["template"]).render(
        messages=messages, tools=request.get("tools"), documents=request.get("documents"),
        add_generation_prompt=request.get("add_generation_prompt", False), **variables)
    if final is None:
        return text
    if final.strip() not in text or TAG.strip() not in text:
        raise ValueError("the final message does not appear in the prompt")
    at = text.rindex(TAG.strip())
    return text[:at] if text[at:at + len(TAG)] == TAG else text[:at].rstrip()
