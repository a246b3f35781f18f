"""text-generation, the client of text-generation-inference: texts, streams, chat, grammars, errors."""
import cases  # first: it sets variables that the libraries below read

from text_generation import AsyncClient, Client
from text_generation.errors import ValidationError
from text_generation.types import Grammar, GrammarType, Message

from cases import PERSON, PROMPT, QUESTION, case, equal, holds, is_person, raises


def client():
    return Client(cases.tenon.url, timeout=60)


def generate(**more):
    return client().generate(PROMPT, **{"max_new_tokens": 16, **more})


@case
def text_equals_the_reference():
    answer = generate()
    equal(answer.generated_text, cases.tenon.completion())
    equal(len(answer.details.tokens), 16)


@case
def stream_concatenates():
    events = list(client().generate_stream(PROMPT, max_new_tokens=16))
    equal("".join(e.token.text for e in events), cases.tenon.completion())
    equal(events[-1].generated_text, cases.tenon.completion())


@case
def chat_equals_the_reference():
    """The client names the model `tgi`."""
    answer = client().chat(messages=[Message(role="user", content=QUESTION)], max_tokens=16, temperature=0)
    equal(answer.choices[0].message.content, cases.tenon.reply())


@case
def top_n_tokens():
    answer = generate(max_new_tokens=4, top_n_tokens=3)
    equal(len(answer.details.top_tokens), 4)
    for token, top in zip(answer.details.tokens, answer.details.top_tokens):
        holds(len(top) >= 3, "fewer than three tokens")
        equal(top[0].id, token.id, "best token of a greedy step")
        equal(top[0].logprob, token.logprob)


@case
def grammar_of_a_schema():
    is_person(generate(max_new_tokens=100, grammar=Grammar(type=GrammarType.Json, value=PERSON)).generated_text)


@case
def grammar_of_a_regular_expression():
    text = generate(max_new_tokens=30, grammar=Grammar(type=GrammarType.Regex, value="[0-9]{3}-[0-9]{4}")).generated_text
    holds(len(text) == 8 and text[3] == "-" and text.replace("-", "").isdigit(), "text: %r" % text)


@case
def stop_sequence_ends_the_text():
    text, word = cases.tenon.stop_word()
    equal(generate(stop_sequences=[word]).generated_text, text[:text.index(word) + len(word)])


@case
def seed_repeats_a_sample():
    one = generate(do_sample=True, seed=7)
    equal(generate(do_sample=True, seed=7).generated_text, one.generated_text)
    holds(len({generate(do_sample=True, seed=s).generated_text for s in range(7, 12)}) > 1, "five seeds gave one text")


@case
def best_of_two():
    answer = generate(do_sample=True, best_of=2, temperature=0.9)
    equal(len(answer.details.best_of_sequences), 1)


@case
def wrong_values_are_validation_errors():
    raises(ValidationError, lambda: generate(max_new_tokens=100000), "max_new_tokens")
    bad = Grammar(type=GrammarType.Json, value={"type": "no-such-type"})
    raises(ValidationError, lambda: generate(grammar=bad))


@case
async def asynchronous_client():
    c = AsyncClient(cases.tenon.url, timeout=60)
    equal((await c.generate(PROMPT, max_new_tokens=16)).generated_text, cases.tenon.completion())
    events = [e async for e in c.generate_stream(PROMPT, max_new_tokens=16)]
    equal(events[-1].generated_text, cases.tenon.completion())


if __name__ == "__main__":
    cases.main("text-generation")
