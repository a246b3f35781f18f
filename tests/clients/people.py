"""The schema that clients with pydantic models request."""
import enum

from pydantic import BaseModel, ConfigDict, Field


class Mood(str, enum.Enum):
    GLAD = "glad"
    SAD = "sad"


class Person(BaseModel):
    """A person."""
    name: str = Field(min_length=1, max_length=10)
    mood: Mood
    age: int = Field(ge=0, le=120)


class StrictPerson(Person):
    """A person without additional properties, as in OpenAI's strict schemas."""
    model_config = ConfigDict(extra="forbid")
