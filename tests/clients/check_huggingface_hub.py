"""huggingface_hub's InferenceClient: text_generation and chat_completion, whole, streamed and asynchronous.

report: hf_inference_client_chat_404
"""
import cases  # first: it sets variables that the libraries below read

import asyncio
import functools
import json

from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import BadRequestError, ValidationError

from cases import ADAPTER, HUB_ADAPTER, PERSON, PROMPT, QUESTION, case, differs, equal, holds, is_person, raises

MESSAGES = [{"role": "user", "content": QUESTION}]


@functools.cache
def client(kind=InferenceClient):
    """A client that is kept alive: its streams are closed when it is collected."""
    return kind(cases.tenon.url, timeout=60)


def generate(**more):
    return client().text_generation(PROMPT, **{"max_new_tokens": 16, **more})


def chat(**more):
    return client().chat_completion(MESSAGES, **{"max_tokens": 16, "temperature": 0, **more})


@case
def text_equals_the_reference():
    equal(generate(), cases.tenon.completion())


@case
def text_stream_concatenates():
    equal("".join(generate(stream=True)), cases.tenon.completion())


@case
def text_details():
    answer = generate(details=True, decoder_input_details=True)
    equal(answer.generated_text, cases.tenon.completion())
    equal((answer.details.generated_tokens, answer.details.finish_reason), (16, "length"))
    equal("".join(t.text for t in answer.details.tokens), answer.generated_text)
    holds(len(answer.details.prefill) > 0, "no prefill")


@case
def text_stream_details():
    events = list(generate(stream=True, details=True))
    equal("".join(e.token.text for e in events), cases.tenon.completion())
    equal(events[-1].details.generated_tokens, 16)
    equal(events[-1].details.input_length, len(cases.tenon.ok("/tokenize", {"inputs": PROMPT})))


@case
def text_under_an_adapter():
    equal(generate(adapter_id=ADAPTER), cases.tenon.completion(model=ADAPTER))
    equal(generate(adapter_id=HUB_ADAPTER), cases.tenon.completion(model=ADAPTER))
    differs(generate(adapter_id=ADAPTER), cases.tenon.completion())


@case
def text_by_a_json_grammar():
    is_person(generate(max_new_tokens=100, grammar={"type": "json", "value": PERSON}))


@case
def text_by_a_regular_expression():
    text = generate(max_new_tokens=30, grammar={"type": "regex", "value": "[0-9]{3}-[0-9]{4}"})
    holds(len(text) == 8 and text[3] == "-" and text.replace("-", "").isdigit(), "text: %r" % text)


@case
def text_stops():
    text, word = cases.tenon.stop_word()
    equal(generate(stop=[word]), text[:text.index(word) + len(word)])


@case
def text_with_top_n_tokens():
    answer = generate(details=True, top_n_tokens=2, max_new_tokens=3)
    best = [top[0]["id"] for top in answer.details.top_tokens]  # the client does not convert lists of lists
    equal(best, [t.id for t in answer.details.tokens])


@case
def text_by_seed():
    one = generate(do_sample=True, seed=7)
    equal(generate(do_sample=True, seed=7), one)
    holds(len({generate(do_sample=True, seed=s) for s in range(7, 12)}) > 1, "five seeds gave one text")


@case
def chat_without_a_model_name():
    """The client sends the model `dummy`."""
    equal(chat().choices[0].message.content, cases.tenon.reply())


@case
def chat_stream_without_a_model_name():
    equal("".join(c.choices[0].delta.content or "" for c in chat(stream=True) if c.choices), cases.tenon.reply())


@case
def chat_under_an_adapter():
    c = InferenceClient(base_url=cases.tenon.url, timeout=60)
    answer = c.chat.completions.create(model=ADAPTER, messages=MESSAGES, max_tokens=16, temperature=0)
    text = answer.choices[0].message.content
    equal(text, cases.tenon.reply(model=ADAPTER))
    differs(text, cases.tenon.reply())


@case
def chat_with_logprobs():
    answer = chat(logprobs=True, top_logprobs=2, max_tokens=4)
    tokens = answer.choices[0].logprobs.content
    equal("".join(t.token for t in tokens), answer.choices[0].message.content)
    holds(all(len(t.top_logprobs) == 2 for t in tokens), "two candidates a token")


@case
def chat_by_a_json_schema():
    """The client rewrites this to `{"type": "json_object", "value": SCHEMA}`."""
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    is_person(chat(max_tokens=100, response_format=form).choices[0].message.content)


@case
def chat_by_a_grammar_of_tgi():
    is_person(chat(max_tokens=100, response_format={"type": "json", "value": PERSON}).choices[0].message.content)


@case
def chat_by_any_object():
    answer = chat(max_tokens=200, response_format={"type": "json_object"}).choices[0]
    if answer.finish_reason == "stop":
        holds(isinstance(json.loads(answer.message.content), dict), "no object: %r" % answer.message.content)
    holds(answer.message.content.lstrip().startswith("{"), "no object: %r" % answer.message.content)


@case
async def asynchronous_texts_and_chats():
    async def chunks():
        stream = await client(AsyncInferenceClient).text_generation(PROMPT, max_new_tokens=16, stream=True)
        return "".join([piece async for piece in stream])

    async def reply():
        answer = await client(AsyncInferenceClient).chat_completion(MESSAGES, max_tokens=16, temperature=0)
        return answer.choices[0].message.content

    equal(await asyncio.gather(chunks(), reply()), [cases.tenon.completion(), cases.tenon.reply()])


@case
def wrong_values_raise_with_the_reason():
    raises(ValidationError, lambda: generate(max_new_tokens=100000), "max_new_tokens")
    raises(BadRequestError, lambda: chat(max_tokens=100000), "max_tokens")


@case
def tools_are_called():
    tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}}}
    answer = chat(tools=[tool], tool_choice="required", max_tokens=60)
    equal(answer.choices[0].message.tool_calls[0].function.name, "look")


if __name__ == "__main__":
    cases.main("huggingface_hub")
