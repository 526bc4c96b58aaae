"""The forms requests come in: strict, closed, and without a place for anybody's key."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from mnemon.surfaces.http.notes import note

T = TypeVar("T")

IGNORED = "Ignored, and noted in the log: the credentials say who asks."
_KEYS = ("llm", "api_key", "llm_api_key")


class Query(BaseModel):
    """The query of an address: text, so numbers may be written as text; an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Form(BaseModel):
    """A body: every field is of its own type, and an unknown one is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class KeylessForm(Form):
    """The service works with its own model: a model key that comes along is refused, not used and not kept."""

    @model_validator(mode="before")
    @classmethod
    def _no_key(cls, data: Any) -> Any:
        found = next((name for name in _KEYS if isinstance(data, dict) and name in data), None)
        if found is not None:
            raise PydanticCustomError(
                "key_stays_with_client",
                "{field} is not taken here: model keys stay with the client; the service uses its own model, "
                "and a client that has a key runs the pipeline itself",
                {"field": found},
            )
        return data


class ToolForm(Form):
    """A call of a tool. Whose memory it looks into is said by the credentials alone."""

    user_id: Any = Field(default=None, description=IGNORED)

    @model_validator(mode="after")
    def _note(self) -> ToolForm:
        note_smuggled(self.user_id)
        return self


class ToolQuery(Query):
    """The same in the query of an address."""

    user_id: str | None = Field(default=None, description=IGNORED)

    @model_validator(mode="after")
    def _note(self) -> ToolQuery:
        note_smuggled(self.user_id)
        return self


def note_smuggled(user_id: Any) -> None:
    if user_id is not None:
        note("user_id_ignored", why="a tool was given a user_id; the credentials say who asks")


class Items(BaseModel, Generic[T]):
    """A list that ends here."""

    items: list[T]
