"""outlines over its openai, vllm and tgi back ends: free text, types, pydantic models, regular expressions, choices."""
import cases  # first: it sets variables that the libraries below read

import json
import re
from typing import Literal

import openai
import outlines
from huggingface_hub import AsyncInferenceClient, InferenceClient
from outlines.types import CFG, JsonSchema, Regex

from cases import ADAPTER, KEY, MODEL, PERSON, PROMPT, QUESTION, case, differs, equal, holds, is_person
from people import Person


GREEDY = {"max_tokens": 16, "temperature": 0}
LONG = {"max_tokens": 100, "temperature": 0}


def openai_model(name=MODEL):
    return outlines.from_openai(openai.OpenAI(base_url=cases.tenon.v1, api_key=KEY, max_retries=0), name)


def vllm_model(name=MODEL):
    return outlines.from_vllm(openai.OpenAI(base_url=cases.tenon.v1, api_key=KEY, max_retries=0), name)


def tgi_model():
    return outlines.from_tgi(InferenceClient(cases.tenon.url, timeout=60))


@case
def openai_text():
    equal(openai_model()(QUESTION, **GREEDY), cases.tenon.reply())


@case
def openai_stream():
    equal("".join(openai_model().stream(QUESTION, **GREEDY)), cases.tenon.reply())


@case
def openai_pydantic_model():
    is_person(openai_model()(QUESTION, Person, **LONG))


@case
def openai_json_schema_streamed():
    is_person("".join(openai_model().stream(QUESTION, JsonSchema(json.dumps(PERSON)), **LONG)))


@case
def openai_any_object():
    text = openai_model()(QUESTION, dict, **LONG)
    holds(text.lstrip().startswith("{"), "no object: %r" % text)


@case
def vllm_text():
    equal(vllm_model()(QUESTION, **GREEDY), cases.tenon.reply())


@case
def vllm_under_an_adapter():
    text = vllm_model(ADAPTER)(QUESTION, **GREEDY)
    equal(text, cases.tenon.reply(model=ADAPTER))
    differs(text, cases.tenon.reply())


@case
def vllm_pydantic_model():
    is_person(vllm_model()(QUESTION, Person, **LONG))


@case
def vllm_regular_expression():
    text = vllm_model()(QUESTION, Regex("[0-9]{3}-[0-9]{4}"), **LONG)
    holds(re.fullmatch("[0-9]{3}-[0-9]{4}", text), "text: %r" % text)


@case
def vllm_choice():
    holds(vllm_model()(QUESTION, Literal["glad", "sad"], **GREEDY) in cases.MOODS, "no choice")


@case
def vllm_integer():
    text = vllm_model()(QUESTION, int, **GREEDY)
    holds(re.fullmatch(r"[+-]?[0-9]+", text), "text: %r" % text)


@case
def vllm_grammar():
    text = vllm_model()(QUESTION, CFG('root ::= ("glad" | "sad") " " [0-9] [0-9]?'), **LONG)
    holds(re.fullmatch("(glad|sad) [0-9]{1,2}", text), "text: %r" % text)


@case
def vllm_stream_of_a_schema():
    is_person("".join(vllm_model().stream(QUESTION, Person, **LONG)))


@case
def tgi_text():
    equal(tgi_model()(PROMPT, max_new_tokens=16), cases.tenon.completion())


@case
def tgi_stream():
    equal("".join(tgi_model().stream(PROMPT, max_new_tokens=16)), cases.tenon.completion())


@case
def tgi_pydantic_model():
    is_person(tgi_model()(PROMPT, Person, max_new_tokens=100))


@case
def tgi_regular_expression():
    text = tgi_model()(PROMPT, Regex("[0-9]{3}-[0-9]{4}"), max_new_tokens=30)
    holds(re.fullmatch("[0-9]{3}-[0-9]{4}", text), "text: %r" % text)


@case
def tgi_choice():
    holds(tgi_model()(PROMPT, Literal["glad", "sad"], max_new_tokens=16) in cases.MOODS, "no choice")


@case
async def asynchronous_models():
    vllm = outlines.from_vllm(openai.AsyncOpenAI(base_url=cases.tenon.v1, api_key=KEY), MODEL)
    is_person(await vllm(QUESTION, Person, **LONG))
    tgi = outlines.from_tgi(AsyncInferenceClient(cases.tenon.url, timeout=60))
    is_person(await tgi(PROMPT, Person, max_new_tokens=100))


if __name__ == "__main__":
    cases.main("outlines", "openai", "huggingface_hub")
