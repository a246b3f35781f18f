"""instructor in its JSON_SCHEMA mode: pydantic objects, whole, partial, in lists, and asynchronous."""
import cases  # first: it sets variables that the libraries below read

from typing import Literal, Optional

import instructor
import openai
from pydantic import BaseModel, Field

from cases import ADAPTER, KEY, MODEL, QUESTION, case, equal, holds, raises
from people import Mood, Person


class Plain(BaseModel):
    """A model without an enumeration, because instructor's partial models take enumerations for instances of the class."""
    name: str = Field(min_length=1, max_length=10)
    mood: Literal["glad", "sad"]
    age: int = Field(ge=0, le=120)


class Pet(BaseModel):
    kind: Mood
    owner: Optional[Person]


class Flags(BaseModel):
    values: list[bool] = Field(min_length=2, max_length=3)


def client(mode=instructor.Mode.JSON_SCHEMA):
    return instructor.from_openai(openai.OpenAI(base_url=cases.tenon.v1, api_key=KEY, max_retries=0), mode=mode)


def create(kind, **more):
    more = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 120, "temperature": 0,
            "max_retries": 0, **more}
    return client().chat.completions.create(response_model=kind, **more)


@case
def object_of_a_model():
    one = create(Person)
    holds(isinstance(one, Person), "no Person: %r" % one)
    equal(create(Person).model_dump(), one.model_dump(), "greedy answer again")


@case
def nested_and_optional_objects():
    holds(isinstance(create(Pet), Pet), "no Pet")


@case
def list_within_bounds():
    holds(2 <= len(create(Flags).values) <= 3, "length of the list")


@case
def object_under_an_adapter():
    holds(isinstance(create(Person, model=ADAPTER), Person), "no Person")


@case
def object_with_its_completion():
    messages = [{"role": "user", "content": QUESTION}]
    person, raw = client().chat.completions.create_with_completion(
        model=MODEL, messages=messages, response_model=Person, max_tokens=120, temperature=0, max_retries=0)
    equal(Person.model_validate_json(raw.choices[0].message.content).model_dump(), person.model_dump())
    equal(raw.choices[0].finish_reason, "stop")


@case
def partial_objects_grow_to_the_whole():
    messages = [{"role": "user", "content": QUESTION}]
    parts = list(client().chat.completions.create_partial(
        model=MODEL, messages=messages, response_model=Plain, max_tokens=120, temperature=0, max_retries=0))
    holds(len(parts) > 2, "only %d parts" % len(parts))
    equal(parts[-1].model_dump(), create(Plain).model_dump())


@case
async def asynchronous_client():
    c = instructor.from_openai(openai.AsyncOpenAI(base_url=cases.tenon.v1, api_key=KEY), mode=instructor.Mode.JSON_SCHEMA)
    person = await c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=120,
                                             response_model=Person, temperature=0, max_retries=0)
    equal(person.model_dump(), create(Person).model_dump())


@case
def unknown_model_raises():
    raises(Exception, lambda: create(Person, model="no-such-model"), "no-such-model")


@case
def objects_by_tools():
    c = client(instructor.Mode.TOOLS)
    holds(isinstance(c.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=120,
                                               response_model=Person, temperature=0, max_retries=0), Person), "no Person")


if __name__ == "__main__":
    cases.main("instructor", "openai")
