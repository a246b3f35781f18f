"""openai: completions and chats, whole, streamed and asynchronous; structured answers; errors."""
import cases  # first: it sets variables that the libraries below read

import asyncio

import openai
from openai import AsyncOpenAI, OpenAI

from cases import ADAPTER, HUB_ADAPTER, KEY, MODEL, PROMPT, QUESTION, case, differs, equal, holds, is_person, raises
from people import StrictPerson as Person

MESSAGES = [{"role": "user", "content": QUESTION}]


def client(kind=OpenAI, **more):
    return kind(**{"base_url": cases.tenon.v1, "api_key": KEY, "max_retries": 0, **more})


def complete(**more):
    more = {"model": MODEL, "prompt": PROMPT, "max_tokens": 16, "temperature": 0, **more}
    return client().completions.create(**more)


def chat(**more):
    more = {"model": MODEL, "messages": MESSAGES, "max_tokens": 16, "temperature": 0, **more}
    return client().chat.completions.create(**more)


def json_schema():
    return {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": Person.model_json_schema()}}


@case
def models_are_listed_and_retrieved():
    ids = [m.id for m in client().models.list()]
    for name in [MODEL, ADAPTER, HUB_ADAPTER]:
        holds(name in ids, lambda: "%s is not among %s" % (name, ids))
        equal(client().models.retrieve(name).id, name)


@case
def completion_equals_the_reference():
    answer = client(_strict_response_validation=True).completions.create(model=MODEL, prompt=PROMPT, max_tokens=16, temperature=0)
    equal(answer.choices[0].text, cases.tenon.completion())
    equal(answer.usage.completion_tokens, 16)


@case
def completion_stream_concatenates():
    text = "".join(c.choices[0].text for c in complete(stream=True))
    equal(text, cases.tenon.completion())


@case
def stream_ends_with_usage():
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    equal(chunks[-1].choices, [])
    equal(chunks[-1].usage.completion_tokens, 16)


@case
def adapter_as_model_changes_the_text():
    text = complete(model=ADAPTER).choices[0].text
    equal(text, cases.tenon.completion(model=ADAPTER))
    differs(text, cases.tenon.completion())


@case
def adapter_of_two_parts_as_model():
    equal(complete(model=HUB_ADAPTER).choices[0].text, cases.tenon.completion(model=ADAPTER))


@case
def adapter_in_extra_body():
    equal(complete(extra_body={"adapter_id": ADAPTER}).choices[0].text, cases.tenon.completion(model=ADAPTER))


@case
def list_of_prompts_equals_each_alone():
    prompts = [PROMPT, "Once upon a time"]
    equal([c.text for c in complete(prompt=prompts).choices], [cases.tenon.completion(p) for p in prompts])


@case
def token_ids_as_a_prompt():
    ids = [t["id"] for t in cases.tenon.ok("/tokenize", {"inputs": PROMPT})]
    answer = complete(prompt=ids)
    equal((answer.choices[0].text, answer.usage.prompt_tokens), (cases.tenon.completion(), len(ids)))


@case
def echo_with_logprobs_of_the_prompt():
    choice = complete(echo=True, logprobs=1, max_tokens=2).choices[0]
    equal(choice.text, PROMPT + cases.tenon.completion(max_tokens=2))
    equal("".join(choice.logprobs.tokens), choice.text)
    equal(choice.logprobs.token_logprobs[0], None)
    holds(all(p <= 0 for p in choice.logprobs.token_logprobs[1:]), "a log-probability above 0")


@case
def several_answers_draw_apart():
    answer = complete(n=3, temperature=1, seed=7)
    equal([c.index for c in answer.choices], [0, 1, 2])
    holds(len({c.text for c in answer.choices}) > 1, "three samples are one text")
    equal(answer.choices[0].text, complete(temperature=1, seed=7).choices[0].text, "the first answer")


@case
def stop_text_is_cut_off():
    text, word = cases.tenon.stop_word()
    answer = complete(stop=[word]).choices[0]
    equal((answer.text, answer.finish_reason), (text[:text.index(word)], "stop"))
    equal("".join(c.choices[0].text for c in complete(stop=[word], stream=True)), answer.text, "streamed text")


@case
def seed_repeats_a_sample():
    one = complete(temperature=1, seed=7).choices[0].text
    equal(complete(temperature=1, seed=7).choices[0].text, one)
    holds(len({complete(temperature=1, seed=s).choices[0].text for s in range(7, 12)}) > 1, "five seeds gave one text")


@case
def logprobs_of_a_completion():
    found = complete(logprobs=3, max_tokens=5).choices[0].logprobs
    equal("".join(found.tokens), cases.tenon.completion(max_tokens=5))
    for chosen, top in zip(found.token_logprobs, found.top_logprobs):
        holds(len(top) >= 3 and chosen <= 0 and max(top.values()) == chosen, lambda: "greedy token is not the best: %s" % top)


@case
def logit_bias_forbids_a_token():
    first = cases.tenon.ok("/tokenize", {"inputs": cases.tenon.completion(max_tokens=1), "add_special_tokens": False})[0]["id"]
    answer = complete(max_tokens=1, logit_bias={str(first): -100})
    differs(answer.choices[0].text, cases.tenon.completion(max_tokens=1))


@case
def chat_equals_the_reference():
    equal(chat().choices[0].message.content, cases.tenon.reply())


@case
def chat_stream_concatenates():
    equal("".join(c.choices[0].delta.content or "" for c in chat(stream=True) if c.choices), cases.tenon.reply())


@case
def chat_under_an_adapter():
    text = chat(model=ADAPTER).choices[0].message.content
    equal(text, cases.tenon.reply(model=ADAPTER))
    differs(text, cases.tenon.reply())


@case
def chat_with_max_completion_tokens_and_a_developer():
    messages = [{"role": "developer", "content": "Be brief."}, *MESSAGES]
    answer = client().chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=5, temperature=0)
    equal(answer.choices[0].message.content, cases.tenon.answer(messages, 5))
    equal(answer.usage.completion_tokens, 5)


@case
def chat_contents_in_parts():
    parts = [{"type": "text", "text": QUESTION}]
    equal(chat(messages=[{"role": "user", "content": parts}]).choices[0].message.content, cases.tenon.reply())


@case
def chat_logprobs_spell_the_answer():
    answer = chat(logprobs=True, top_logprobs=2, max_tokens=6).choices[0]
    spelled = b"".join(bytes(t.bytes) for t in answer.logprobs.content).decode("utf-8", "replace")
    equal(spelled, answer.message.content)
    holds(all(len(t.top_logprobs) == 2 for t in answer.logprobs.content), "two candidates a token")


@case
def schema_by_response_format():
    is_person(chat(max_tokens=100, response_format=json_schema()).choices[0].message.content)


@case
def parse_gives_a_pydantic_object():
    answer = client().chat.completions.parse(model=MODEL, messages=MESSAGES, max_tokens=100, temperature=0, response_format=Person)
    holds(isinstance(answer.choices[0].message.parsed, Person), "no Person was parsed")


@case
def structured_outputs_of_vllm_in_extra_body():
    answer = chat(max_tokens=100, extra_body={"structured_outputs": {"json": Person.model_json_schema()}})
    is_person(answer.choices[0].message.content)
    answer = complete(max_tokens=20, extra_body={"structured_outputs": {"choice": cases.MOODS}})
    holds(answer.choices[0].text in cases.MOODS, "choice: %r" % answer.choices[0].text)


@case
def guided_fields_of_vllm_in_extra_body():
    is_person(chat(max_tokens=100, extra_body={"guided_json": Person.model_json_schema()}).choices[0].message.content)
    text = complete(max_tokens=20, extra_body={"guided_regex": "[0-9]{3}-[0-9]{4}"}).choices[0].text
    holds(len(text) == 8 and text[3] == "-" and text.replace("-", "").isdigit(), "regex: %r" % text)


@case
def inert_fields_change_nothing():
    more = {"user": "somebody", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"}
    equal(chat(**more).choices[0].message.content, cases.tenon.reply())


@case
async def asynchronous_streams_side_by_side():
    async def one(model):
        async with client(AsyncOpenAI) as c:
            stream = await c.completions.create(model=model, prompt=PROMPT, max_tokens=16, temperature=0, stream=True)
            return "".join([chunk.choices[0].text async for chunk in stream])

    names = [MODEL, ADAPTER, HUB_ADAPTER]
    got = await asyncio.gather(*map(one, names))
    equal(got, [cases.tenon.completion(model=n) for n in names])


@case
def closed_stream_frees_its_slot():
    before = cases.tenon.dropped()
    stream = complete(max_tokens=900, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    cases.tenon.was_dropped(before)


@case
def unknown_model_is_not_found():
    error = raises(openai.NotFoundError, lambda: complete(model="no-such-model"), "no-such-model")
    equal((error.code, error.param), ("model_not_found", "model"))


@case
def wrong_values_are_bad_requests():
    equal(raises(openai.BadRequestError, lambda: complete(temperature=-1)).param, "temperature")
    equal(raises(openai.BadRequestError, lambda: complete(max_tokens=100000)).param, "max_tokens")
    raises(openai.BadRequestError, lambda: list(complete(temperature=-1, stream=True)))


@case
def unknown_field_is_refused_by_name():
    raises(openai.BadRequestError, lambda: complete(extra_body={"no_such_field": 1}), "no_such_field")


@case(not_yet="tool(s|_choice). is not supported")
def tools_are_called():
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    answer = chat(tools=[tool], tool_choice="required", max_tokens=60)
    equal(answer.choices[0].message.tool_calls[0].function.name, "look")


@case(not_yet="NotFoundError.*404")
def responses_are_made():
    equal(client().responses.create(model=MODEL, input=QUESTION, max_output_tokens=16, temperature=0).status, "incomplete")


if __name__ == "__main__":
    cases.main("openai")
