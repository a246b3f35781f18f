"""litellm: its openai, text-completion-openai and hosted_vllm routes, whole, streamed and asynchronous; errors."""
import cases  # first: it sets variables that the libraries below read

import asyncio

import litellm

from cases import ADAPTER, KEY, MODEL, PERSON, PROMPT, QUESTION, case, differs, equal, holds, is_person, raises
from people import StrictPerson as Person

MESSAGES = [{"role": "user", "content": QUESTION}]


def options(**more):
    return {"api_base": cases.tenon.v1, "api_key": KEY, "max_tokens": 16, "temperature": 0, "max_retries": 0, **more}


def chat(model=MODEL, route="openai", **more):
    return litellm.completion(model="%s/%s" % (route, model), messages=MESSAGES, **options(**more))


def text(model=MODEL, **more):
    return litellm.text_completion(model="text-completion-openai/" + model, prompt=PROMPT, **options(**more))


@case
def chat_equals_the_reference():
    answer = chat()
    equal(answer.choices[0].message.content, cases.tenon.reply())
    equal(answer.usage.completion_tokens, 16)


@case
def an_answer_goes_back_in_a_second_turn():
    first = chat().choices[0].message
    turns = MESSAGES + [first.model_dump(), {"role": "user", "content": "And then?"}]
    for route in ["openai", "hosted_vllm"]:
        answer = litellm.completion(model="%s/%s" % (route, MODEL), messages=turns, **options())
        equal(answer.choices[0].message.role, "assistant")


@case
def chat_stream_concatenates():
    equal("".join(c.choices[0].delta.content or "" for c in chat(stream=True)), cases.tenon.reply())


@case
def chat_stream_with_usage():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    equal([c.usage.completion_tokens for c in chunks if getattr(c, "usage", None)], [16])


@case
def chat_under_an_adapter():
    got = chat(ADAPTER).choices[0].message.content
    equal(got, cases.tenon.reply(model=ADAPTER))
    differs(got, cases.tenon.reply())


@case
def chat_by_the_vllm_route():
    equal(chat(route="hosted_vllm").choices[0].message.content, cases.tenon.reply())


@case
def chat_with_logprobs():
    tokens = chat(logprobs=True, top_logprobs=2, max_tokens=4).choices[0].logprobs.content
    equal(len(tokens), 4)


@case
def chat_stops():
    whole = cases.tenon.reply()
    word = " " + whole.split()[2]
    equal(chat(stop=[word]).choices[0].message.content, whole[:whole.index(word)])


@case
def chat_by_seed():
    one = chat(temperature=1, seed=7).choices[0].message.content
    equal(chat(temperature=1, seed=7).choices[0].message.content, one)


@case
def schema_of_pydantic():
    is_person(chat(response_format=Person, max_tokens=100).choices[0].message.content)


@case
def schema_as_dict_by_the_vllm_route():
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    is_person(chat(route="hosted_vllm", response_format=form, max_tokens=100).choices[0].message.content)


@case
def extra_body_reaches_the_server():
    answer = chat(extra_body={"guided_choice": cases.MOODS}).choices[0].message.content
    holds(answer in cases.MOODS, "choice: %r" % answer)


@case
def completion_equals_the_reference():
    equal(text().choices[0].text, cases.tenon.completion())


@case
def completion_stream_concatenates():
    equal("".join(c.choices[0].text or "" for c in text(stream=True)), cases.tenon.completion())


@case
async def asynchronous_chats():
    async def one(model):
        answer = await litellm.acompletion(model="openai/" + model, messages=MESSAGES, **options())
        return answer.choices[0].message.content

    equal(await asyncio.gather(one(MODEL), one(ADAPTER)), [cases.tenon.reply(), cases.tenon.reply(model=ADAPTER)])


@case
def errors_have_their_classes():
    raises(litellm.NotFoundError, lambda: chat("no-such-model"), "no-such-model")
    raises(litellm.BadRequestError, lambda: chat(temperature=-1), "temperature")


@case
def tools_are_called():
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    answer = chat(tools=[tool], tool_choice="required", max_tokens=60)
    equal(answer.choices[0].message.tool_calls[0].function.name, "look")


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    cases.main("litellm", "openai")
