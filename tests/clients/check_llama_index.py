"""llama-index's OpenAILike: completions and chats, whole, streamed and asynchronous."""
import cases  # first: it sets variables that the libraries below read

import asyncio

import openai
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

from cases import ADAPTER, KEY, MODEL, PERSON, PROMPT, QUESTION, case, differs, equal, holds, is_person, raises

MESSAGES = [ChatMessage(role="user", content=QUESTION)]


def llm(model=MODEL, chat=True, **more):
    return OpenAILike(**{"model": model, "api_base": cases.tenon.v1, "api_key": KEY, "is_chat_model": chat, "context_window": 1024,
                         "max_tokens": 16, "temperature": 0, "max_retries": 0, **more})


@case
def chat_equals_the_reference():
    equal(llm().chat(MESSAGES).message.content, cases.tenon.reply())


@case
def chat_stream_concatenates():
    equal("".join(c.delta for c in llm().stream_chat(MESSAGES)), cases.tenon.reply())


@case
def chat_of_several_turns():
    turns = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Good day."), ("user", QUESTION)]
    got = llm().chat([ChatMessage(role=role, content=content) for role, content in turns]).message.content
    equal(got, cases.tenon.answer([{"role": role, "content": content} for role, content in turns]))


@case
def chat_under_an_adapter():
    got = llm(ADAPTER).chat(MESSAGES).message.content
    equal(got, cases.tenon.reply(model=ADAPTER))
    differs(got, cases.tenon.reply())


@case
def completion_equals_the_reference():
    equal(llm(chat=False).complete(PROMPT).text, cases.tenon.completion())


@case
def completion_stream_concatenates():
    equal("".join(c.delta for c in llm(chat=False).stream_complete(PROMPT)), cases.tenon.completion())


@case
def completion_stops():
    whole, word = cases.tenon.stop_word()
    equal(llm(chat=False, additional_kwargs={"stop": [word]}).complete(PROMPT).text, whole[:whole.index(word)])


@case
def schema_by_response_format():
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    is_person(llm(max_tokens=100).chat(MESSAGES, response_format=form).message.content)


@case
def logprobs_of_a_chat():
    answer = llm(logprobs=True, top_logprobs=2, max_tokens=4).chat(MESSAGES)
    equal(len(answer.logprobs), 4)


@case
async def asynchronous_chats_and_completions():
    async def streamed():
        return "".join([c.delta async for c in await llm().astream_chat(MESSAGES)])

    async def completed():
        return (await llm(chat=False).acomplete(PROMPT)).text

    equal(await asyncio.gather(streamed(), completed()), [cases.tenon.reply(), cases.tenon.completion()])


@case
def unknown_model_raises():
    raises(openai.NotFoundError, lambda: llm("no-such-model").chat(MESSAGES), "no-such-model")


@case
def tools_are_called():
    tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}}}
    answer = llm(max_tokens=60).chat(MESSAGES, tools=[tool], tool_choice="required")
    equal([call.tool_name for call in llm().get_tool_calls_from_response(answer)], ["look"])


if __name__ == "__main__":
    cases.main("llama-index-llms-openai-like", "llama-index-core", "openai")
