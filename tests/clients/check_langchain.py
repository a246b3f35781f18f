"""langchain-openai: ChatOpenAI and OpenAI, whole, streamed, in batches and asynchronous; structured outputs."""
import cases  # first: it sets variables that the libraries below read

import asyncio

import openai
from langchain_openai import ChatOpenAI, OpenAI

from cases import ADAPTER, KEY, MODEL, PERSON, PROMPT, QUESTION, case, differs, equal, holds, is_person, raises
from people import Person


def chat(**more):
    return ChatOpenAI(**{"base_url": cases.tenon.v1, "api_key": KEY, "model": MODEL, "temperature": 0, "max_tokens": 16,
                         "max_retries": 0, **more})


def text(**more):
    return OpenAI(**{"base_url": cases.tenon.v1, "api_key": KEY, "model": MODEL, "temperature": 0, "max_tokens": 16,
                     "max_retries": 0, **more})


@case
def chat_equals_the_reference():
    answer = chat().invoke(QUESTION)
    equal(answer.content, cases.tenon.reply())
    equal(answer.usage_metadata["output_tokens"], 16)


@case
def chat_stream_concatenates():
    equal("".join(c.content for c in chat().stream(QUESTION)), cases.tenon.reply())


@case
def chat_stream_with_usage():
    chunks = list(chat(stream_usage=True).stream(QUESTION))
    equal(sum(c.usage_metadata["output_tokens"] for c in chunks if c.usage_metadata), 16)


@case
def chat_of_several_turns():
    turns = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Good day."), ("user", QUESTION)]
    messages = [{"role": role, "content": content} for role, content in turns]
    equal(chat().invoke(turns).content, cases.tenon.answer(messages))


@case
def chat_under_an_adapter():
    got = chat(model=ADAPTER).invoke(QUESTION).content
    equal(got, cases.tenon.reply(model=ADAPTER))
    differs(got, cases.tenon.reply())


@case
def chat_in_a_batch():
    questions = [QUESTION, "What is rain?", "Who are you?"]
    equal([a.content for a in chat().batch(questions)], [cases.tenon.reply(q) for q in questions])


@case
async def chat_asynchronous():
    async def streamed():
        return "".join([c.content async for c in chat().astream(QUESTION)])

    got = await asyncio.gather(chat().ainvoke(QUESTION), streamed())
    equal([got[0].content, got[1]], [cases.tenon.reply()] * 2)


@case
def chat_with_logprobs():
    tokens = chat(logprobs=True, top_logprobs=2, max_tokens=4).invoke(QUESTION).response_metadata["logprobs"]["content"]
    equal(len(tokens), 4)
    holds(all(len(t["top_logprobs"]) == 2 for t in tokens), "two candidates a token")


@case
def chat_by_seed():
    one = chat(temperature=1, seed=7).invoke(QUESTION).content
    equal(chat(temperature=1, seed=7).invoke(QUESTION).content, one)
    holds(len({chat(temperature=1, seed=s).invoke(QUESTION).content for s in range(7, 12)}) > 1, "five seeds gave one text")


@case
def structured_output_by_json_schema():
    person = chat(max_tokens=100).with_structured_output(Person, method="json_schema").invoke(QUESTION)
    holds(isinstance(person, Person), "no Person: %r" % person)


@case
def structured_output_by_a_schema_as_dict():
    schema = {"title": "person", "description": "A person.", **PERSON}
    is_person(chat(max_tokens=100).with_structured_output(schema, method="json_schema", strict=True).invoke(QUESTION))


@case
def structured_output_by_a_json_object_with_a_schema():
    form = {"type": "json_object", "schema": PERSON}
    is_person(chat(max_tokens=100).bind(response_format=form).invoke(QUESTION).content)


@case
def extra_body_reaches_the_server():
    choice = chat(extra_body={"structured_outputs": {"choice": cases.MOODS}}).invoke(QUESTION).content
    holds(choice in cases.MOODS, "choice: %r" % choice)


@case
def completion_equals_the_reference():
    equal(text().invoke(PROMPT), cases.tenon.completion())


@case
def completion_stream_concatenates():
    equal("".join(text().stream(PROMPT)), cases.tenon.completion())


@case
def completions_in_a_batch():
    prompts = [PROMPT, "Once upon a time"]
    equal(text().batch(prompts), [cases.tenon.completion(p) for p in prompts])


@case
def completion_stops():
    whole, word = cases.tenon.stop_word()
    equal(text().invoke(PROMPT, stop=[word]), whole[:whole.index(word)])


@case
def unknown_model_raises():
    raises(openai.NotFoundError, lambda: chat(model="no-such-model").invoke(QUESTION), "no-such-model")


@case
def structured_output_by_tools():
    person = chat(max_tokens=100).with_structured_output(Person, method="function_calling").invoke(QUESTION)
    holds(isinstance(person, Person), "no Person: %r" % person)


@case
def responses_are_made():
    equal(chat(use_responses_api=True).invoke(QUESTION).text, cases.tenon.reply())


if __name__ == "__main__":
    cases.main("langchain-openai", "langchain-core", "openai")
