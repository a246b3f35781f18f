"""ollama: chats and texts, whole, streamed and asynchronous; formats; embeddings; what is served; errors."""
import cases  # first: it sets variables that the libraries below read

import ollama

from cases import ADAPTER, MODEL, PERSON, PROMPT, QUESTION, case, equal, holds, is_person, raises

MESSAGES = [{"role": "user", "content": QUESTION}]
GREEDY = {"temperature": 0, "num_predict": 16}


def client():
    return ollama.Client(host=cases.tenon.url)


def chat(**more):
    return client().chat(**{"model": MODEL, "messages": MESSAGES, "options": GREEDY, **more})


@case
def models_are_listed():
    named = [m.model for m in client().list().models]
    holds(MODEL in named and ADAPTER in named, lambda: str(named))
    equal([m.model for m in client().ps().models][0], MODEL)
    shown = client().show(MODEL)
    equal((shown.details.family, shown.capabilities), ("gpt2", ["completion", "tools"]))
    equal(shown.modelinfo["gpt2.context_length"], 1024)


@case
def chat_equals_the_reference():
    answer = chat()
    equal((answer.message.content, answer.done_reason, answer.eval_count), (cases.tenon.reply(), "length", 16))
    equal(chat(model=MODEL + ":latest").message.content, cases.tenon.reply())


@case
def chat_under_an_adapter():
    equal(chat(model=ADAPTER).message.content, cases.tenon.reply(model=ADAPTER))


@case
def system_and_several_turns():
    turns = [{"role": "system", "content": "Be kind."}, *MESSAGES, {"role": "assistant", "content": "I am."}, *MESSAGES]
    equal(chat(messages=turns).message.content, cases.tenon.answer(turns))


@case
def stream_concatenates():
    parts = list(chat(stream=True))
    equal("".join(p.message.content for p in parts), cases.tenon.reply())
    equal((parts[-1].done, parts[-1].done_reason, parts[-1].eval_count), (True, "length", 16))


@case
def text_equals_the_reference():
    equal(client().generate(MODEL, PROMPT, raw=True, options=GREEDY).response, cases.tenon.completion())
    equal("".join(p.response for p in client().generate(MODEL, PROMPT, raw=True, options=GREEDY, stream=True)), cases.tenon.completion())
    equal(client().generate(MODEL, QUESTION, system="Be kind.", options=GREEDY).response,
          cases.tenon.answer([{"role": "system", "content": "Be kind."}, *MESSAGES]))


@case
def stop_strings_end_answers():
    text, word = cases.tenon.stop_word()
    answer = client().generate(MODEL, PROMPT, raw=True, options=GREEDY | {"stop": [word]})
    equal((answer.response, answer.done_reason), (text[:text.index(word)], "stop"))


@case
def a_model_is_loaded():
    equal(client().generate(MODEL, "").done_reason, "load")


@case
def json_by_a_schema():
    is_person(chat(format=PERSON, options={"temperature": 0, "num_predict": 100}).message.content)


@case
def calls_and_their_results_go_back():
    def add_person(name: str) -> str:
        """Adds a person.

        Args:
          name: the person's name
        """

    called = {"role": "assistant", "tool_calls": [{"function": {"name": "add_person", "arguments": {"name": "Ann"}}}]}
    turns = [*MESSAGES, called, {"role": "tool", "tool_name": "add_person", "content": "added"}]
    with_calls = chat(messages=turns, tools=[add_person])
    holds(with_calls.prompt_eval_count > chat(tools=[add_person]).prompt_eval_count + 10, "the prompt has no calls")


@case
def embeddings():
    alone, first = (client().embed(MODEL, inputs).embeddings for inputs in ("The king", ["The king", "Rain"]))
    equal(alone[0], first[0])
    holds(abs(sum(x * x for x in alone[0]) - 1) < 1e-5, "not normalised")
    holds(len(client().embeddings(MODEL, "The king").embedding) == len(alone[0]), "another length")


@case
async def asynchronous_streams():
    parts = await ollama.AsyncClient(host=cases.tenon.url).chat(MODEL, MESSAGES, options=GREEDY, stream=True)
    equal("".join([p.message.content async for p in parts]), cases.tenon.reply())


@case
def errors_have_their_class():
    equal(raises(ollama.ResponseError, lambda: chat(model="nobody"), "nobody").status_code, 404)
    equal(raises(ollama.ResponseError, lambda: chat(options={"temperature": 9}), "options.temperature").status_code, 400)
    equal(raises(ollama.ResponseError, lambda: client().pull("x"), "--model").status_code, 501)


if __name__ == "__main__":
    cases.main("ollama")
