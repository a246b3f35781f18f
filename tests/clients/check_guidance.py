"""guidance with its OpenAI model: text, schemas, captures, several turns. It streams, and requests five candidates per token."""
import cases  # first: it sets variables that the libraries below read

import guidance
import openai
from guidance import assistant, gen, system, user
from guidance import json as gen_json
from pydantic import BaseModel, Field

from cases import ADAPTER, KEY, MODEL, PERSON, QUESTION, case, differs, equal, holds, is_person, raises

GREEDY = 1e-4  # guidance omits a temperature of 0


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=10)
    age: int = Field(ge=0, le=120)


def model(name=MODEL):
    return guidance.models.OpenAI(name, api_key=KEY, base_url=cases.tenon.v1, max_retries=0, echo=False)


def asked(lm, question=QUESTION):
    with user():
        return lm + question


def answered(lm, grammar):
    with assistant():
        return lm + grammar


@case
def text_equals_the_reference():
    lm = answered(asked(model()), gen("answer", max_tokens=16, temperature=GREEDY))
    equal(lm["answer"], cases.tenon.reply())


@case
def text_under_an_adapter():
    lm = answered(asked(model(ADAPTER)), gen("answer", max_tokens=16, temperature=GREEDY))
    equal(lm["answer"], cases.tenon.reply(model=ADAPTER))
    differs(lm["answer"], cases.tenon.reply())


@case
def text_after_several_turns():
    lm = model()
    with system():
        lm += "Be brief."
    lm = answered(asked(lm, "Hello"), gen("first", max_tokens=8, temperature=GREEDY))
    lm = answered(asked(lm), gen("second", max_tokens=16, temperature=GREEDY))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": lm["first"]}, {"role": "user", "content": QUESTION}]
    equal(lm["second"], cases.tenon.answer(messages))


@case
def schema_as_dict():
    is_person(answered(asked(model()), gen_json("answer", schema=PERSON, max_tokens=100, temperature=GREEDY))["answer"])


@case
def schema_of_pydantic():
    lm = answered(asked(model()), gen_json("answer", schema=Person, max_tokens=100, temperature=GREEDY))
    Person.model_validate_json(lm["answer"])


@case
def any_object():
    lm = answered(asked(model()), gen_json("answer", max_tokens=60, temperature=GREEDY))
    holds(lm["answer"].lstrip().startswith("{"), "no object: %r" % lm["answer"])


@case
def tokens_are_counted():
    lm = answered(asked(model()), gen("answer", max_tokens=16, temperature=GREEDY))
    equal(lm._interpreter.state.get_usage().forward_passes, 16)


@case
def unknown_model_raises():
    raises(openai.NotFoundError, lambda: answered(asked(model("no-such-model")), gen("a", max_tokens=4)), "no-such-model")


if __name__ == "__main__":
    cases.main("guidance", "openai")
