"""anthropic: messages, whole, streamed and asynchronous; tools and their results; errors of its own classes."""
import cases  # first: it sets variables that the libraries below read

import anthropic
from anthropic import Anthropic, AsyncAnthropic

from cases import ADAPTER, KEY, MODEL, PERSON, QUESTION, case, differs, equal, holds, is_person, raises

MESSAGES = [{"role": "user", "content": QUESTION}]
TOOL = {"name": "add_person", "description": "Adds a person.", "input_schema": PERSON}
LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
GREEDY = {"temperature": 0}  # the client has no argument for it


def client(kind=Anthropic):
    return kind(base_url=cases.tenon.url, api_key=KEY, max_retries=0)


def create(on=None, **more):
    return (on or client()).messages.create(**{"model": MODEL, "messages": MESSAGES, "max_tokens": 16, "extra_body": GREEDY, **more})


def text_of(message):
    return "".join(block.text for block in message.content)


@case
def models_are_listed():
    ids = [m.id for m in client().models.list()]
    holds(MODEL in ids and ADAPTER in ids, lambda: str(ids))


@case
def message_equals_the_reference():
    answer = create()
    equal((text_of(answer), answer.stop_reason, answer.usage.output_tokens), (cases.tenon.reply(), "max_tokens", 16))
    equal((answer.type, answer.role, answer.stop_sequence), ("message", "assistant", None))


@case
def message_under_an_adapter():
    equal(text_of(create(model=ADAPTER)), cases.tenon.reply(model=ADAPTER))
    differs(text_of(create(model=ADAPTER)), text_of(create()))


@case
def system_and_several_turns():
    turns = [{"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]},
             {"role": "assistant", "content": "Yes"}, *MESSAGES]
    answer = create(system="Be kind.", messages=turns)
    equal(text_of(answer), cases.tenon.answer([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"},
                                               {"role": "assistant", "content": "Yes"}, *MESSAGES]))


@case
def stream_concatenates():
    with client().messages.stream(model=MODEL, messages=MESSAGES, max_tokens=16, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    equal((text, text_of(final), final.stop_reason), (cases.tenon.reply(), cases.tenon.reply(), "max_tokens"))
    equal((final.usage.input_tokens, final.usage.output_tokens), (create().usage.input_tokens, 16))


@case
def stop_sequence_is_named():
    text = cases.tenon.reply()
    word = text.split()[2]
    answer = create(stop_sequences=["never", word])
    equal((text_of(answer), answer.stop_reason, answer.stop_sequence), (text[:text.index(word)], "stop_sequence", word))


@case
def tools_that_must_be_called():
    for choice, most in [({"type": "any"}, 16), ({"type": "any", "disable_parallel_tool_use": True}, 1), ({"type": "tool", "name": "add_person"}, 1)]:
        for seed in range(2):
            answer = create(tools=[TOOL, LOOK], tool_choice=choice, max_tokens=400, extra_body={"temperature": 1, "seed": seed})
            equal(answer.stop_reason, "tool_use")
            holds(1 <= len(answer.content) <= most, lambda: "calls: %r" % answer.content)
            for call in answer.content:
                equal(call.type, "tool_use")
                if call.name == "look":
                    equal(call.input, {})
                else:
                    equal(call.name, "add_person")
                    is_person(call.input)


@case
def tools_that_may_be_called():
    holds(text_of(create(tools=[TOOL, LOOK])), "no text")
    equal(text_of(create(tools=[TOOL], tool_choice={"type": "none"})), cases.tenon.reply())


@case
def calls_are_streamed():
    more = {"model": MODEL, "messages": MESSAGES, "tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "max_tokens": 200, "extra_body": GREEDY}
    with client().messages.stream(**more) as stream:
        final = stream.get_final_message()
    call, = final.content
    equal((final.stop_reason, call.name, call.input), ("tool_use", "add_person", create(**more).content[0].input))
    is_person(call.input)


@case
def calls_and_their_results_go_back():
    said = create(tools=[TOOL], tool_choice={"type": "tool", "name": "add_person"}, max_tokens=200).content
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "added"} for call in said]
    again = create(messages=[*MESSAGES, {"role": "assistant", "content": said}, {"role": "user", "content": results}], tools=[TOOL])
    holds(again.usage.input_tokens > create(tools=[TOOL]).usage.input_tokens + 20, "the prompt has no calls")


@case
async def asynchronous_streams():
    async with client(AsyncAnthropic) as on:
        async with on.messages.stream(model=MODEL, messages=MESSAGES, max_tokens=16, extra_body=GREEDY) as stream:
            equal("".join([text async for text in stream.text_stream]), cases.tenon.reply())


@case
def errors_have_their_classes():
    raises(anthropic.NotFoundError, lambda: create(model="nobody"), "nobody")
    error = raises(anthropic.BadRequestError, lambda: create(extra_body={"temperature": 9}), "temperature")
    equal(error.body["error"]["type"], "invalid_request_error")
    raises(anthropic.BadRequestError, lambda: create(extra_body={"nonsense": 1}), "nonsense")
    raises(anthropic.BadRequestError, lambda: create(thinking={"type": "sometimes"}), "thinking")


@case
def thinking_that_the_template_does_not_read_is_named():
    answer = client().messages.with_raw_response.create(model=MODEL, messages=MESSAGES, max_tokens=16, extra_body=GREEDY,
                                                        thinking={"type": "enabled", "budget_tokens": 2000})
    equal(text_of(answer.parse()), cases.tenon.reply())
    holds("thinking" in answer.headers["x-ignored-fields"], answer.headers["x-ignored-fields"])


if __name__ == "__main__":
    cases.main("anthropic")
