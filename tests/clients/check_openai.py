"""openai: completions and chats, whole, streamed and asynchronous; structured answers; errors."""
import cases  # first: it sets variables that the libraries below read

import asyncio
import struct

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


PERSON_TOOL = {"type": "function", "function": {"name": "add_person", "description": "Adds a person.", "strict": True,
                                                "parameters": Person.model_json_schema()}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
NAMED = {"type": "function", "function": {"name": "add_person"}}


def check_calls(calls, most):
    holds(1 <= len(calls) <= most, "calls: %r" % calls)
    for call in calls:
        equal(call.type, "function")
        if call.function.name == "look":
            equal(call.function.arguments, "{}")
        else:
            equal(call.function.name, "add_person")
            is_person(call.function.arguments)


@case
def tools_that_must_be_called():
    for tool_choice, parallel, most in [("required", True, 16), ("required", False, 1), (NAMED, True, 1)]:
        for seed in range(4):
            answer = chat(tools=[PERSON_TOOL, LOOK], tool_choice=tool_choice, parallel_tool_calls=parallel, max_tokens=400, temperature=1, seed=seed)
            equal(answer.choices[0].finish_reason, "tool_calls")
            equal(answer.choices[0].message.content, None)
            check_calls(answer.choices[0].message.tool_calls, most)


@case
def tools_that_may_be_called():
    message = chat(tools=[PERSON_TOOL, LOOK]).choices[0].message
    equal(message.tool_calls, None)
    holds(message.content, "no text")
    equal(chat(tools=[LOOK], tool_choice="none").choices[0].message.content, cases.tenon.reply())


@case
def calls_are_streamed():
    more = {"tools": [PERSON_TOOL, LOOK], "tool_choice": "required", "max_tokens": 400, "temperature": 1, "seed": 5}
    whole = chat(**more).choices[0].message.tool_calls
    names, arguments, reasons = [], [], []
    for chunk in chat(stream=True, **more):
        reasons.append(chunk.choices[0].finish_reason)
        for call in chunk.choices[0].delta.tool_calls or []:
            if call.id:
                equal(call.index, len(names))
                names.append(call.function.name)
                arguments.append("")
            arguments[call.index] += call.function.arguments
    equal((names, arguments), ([c.function.name for c in whole], [c.function.arguments for c in whole]))
    equal([r for r in reasons if r], ["tool_calls"])
    with client().chat.completions.stream(model=MODEL, messages=MESSAGES, **more) as stream:
        final = stream.get_final_completion()
    equal([c.function.arguments for c in final.choices[0].message.tool_calls], arguments)


@case
def calls_and_their_results_go_back():
    call = chat(tools=[PERSON_TOOL], tool_choice=NAMED, max_tokens=200).choices[0].message
    result = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "added"}
    again = chat(messages=[*MESSAGES, call, result], tools=[PERSON_TOOL])
    holds(again.usage.prompt_tokens > 20, "the prompt has no calls")


@case
def tools_of_pydantic():
    answer = client().chat.completions.parse(model=MODEL, messages=MESSAGES, tools=[openai.pydantic_function_tool(Person)], tool_choice="required",
                                             parallel_tool_calls=False, max_tokens=300, temperature=0)
    holds(isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person), "not parsed")


@case
def wrong_tools_are_refused_by_name():
    error = raises(openai.BadRequestError, lambda: chat(tools=[LOOK], tool_choice={"type": "function", "function": {"name": "x"}}), "tool_choice")
    equal(error.param, "tool_choice")
    odd = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}}}}
    equal(raises(openai.BadRequestError, lambda: chat(tools=[odd]), "dynamicRef").param, "tools")


def respond(**more):
    return client().responses.create(**{"model": MODEL, "input": QUESTION, "max_output_tokens": 16, "temperature": 0, **more})


@case
def responses_are_made():
    answer = respond()
    equal((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    equal(answer.output_text, cases.tenon.reply())
    equal((answer.usage.output_tokens, answer.object), (16, "response"))


@case
def responses_of_conversations():
    turns = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, {"role": "assistant", "content": "Yes"},
             {"role": "user", "content": QUESTION}]
    equal(respond(input=turns, instructions="Be kind.").output_text,
          cases.tenon.answer([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes"},
                              {"role": "user", "content": QUESTION}]))


@case
def responses_are_streamed():
    events = list(respond(stream=True))
    equal([e.sequence_number for e in events], list(range(len(events))))
    equal([e.type for e in events if not e.type.endswith("delta")],
          ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.done",
           "response.content_part.done", "response.output_item.done", "response.incomplete"])
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), cases.tenon.reply())
    equal(events[-1].response.output_text, cases.tenon.reply())


@case
def responses_with_tools():
    tool = {"type": "function", **PERSON_TOOL["function"]}
    more = {"tools": [tool], "tool_choice": "required", "max_output_tokens": 200, "parallel_tool_calls": False}
    call, = respond(**more).output
    equal((call.type, call.name, call.status), ("function_call", "add_person", "completed"))
    is_person(call.arguments)
    events = list(respond(stream=True, **more))
    equal("".join(e.delta for e in events if e.type == "response.function_call_arguments.delta"), call.arguments)
    holds("response.function_call_arguments.done" in [e.type for e in events], "no done event")
    turns = [{"role": "user", "content": QUESTION}, call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "added"}]
    holds(respond(input=turns, tools=[tool]).usage.input_tokens > 20, "the prompt has no calls")


@case
def responses_of_pydantic():
    answer = client().responses.parse(model=MODEL, input=QUESTION, text_format=Person, max_output_tokens=200, temperature=0)
    holds(isinstance(answer.output_parsed, Person), "not parsed")


@case
def responses_that_need_kept_state_are_refused():
    raises(openai.BadRequestError, lambda: respond(previous_response_id="resp_1"), "previous_response_id")


def embed(**more):
    return client().embeddings.create(**{"model": MODEL, "input": [PROMPT, QUESTION], **more})


def in_float32(numbers):
    return list(struct.unpack("<%df" % len(numbers), struct.pack("<%df" % len(numbers), *numbers)))


@case
def embeddings_are_made():
    answer = embed()  # the client asks for base64
    plain = embed(encoding_format="float")
    equal([d.index for d in answer.data], [0, 1])
    equal([list(d.embedding) for d in answer.data], [in_float32(d.embedding) for d in plain.data])
    equal(answer.usage.prompt_tokens, plain.usage.total_tokens)
    equal([list(embed(input=text).data[0].embedding) for text in [PROMPT, QUESTION]], [list(d.embedding) for d in answer.data])


@case
def embeddings_under_an_adapter():
    holds(embed(model=ADAPTER).data[0].embedding != embed().data[0].embedding, "the adapter changes nothing")
    equal(embed(model=HUB_ADAPTER).data[0].embedding, embed(model=ADAPTER).data[0].embedding)


@case
def embeddings_of_another_length_are_refused():
    raises(openai.BadRequestError, lambda: embed(dimensions=8), "dimensions")


if __name__ == "__main__":
    cases.main("openai")
