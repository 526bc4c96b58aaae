"""What callers hand in as plain data, as one of our models; what is wrong with it is told with its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from mnemon.contracts.errors import InvalidArgument
from mnemon.logic.hints import hint

M = TypeVar("M", bound=BaseModel)


def taken(model: type[M], given: M | Mapping[str, Any], name: str) -> M:
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{name} must be an object, not {type(given).__name__}", field=name)
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise _told(model, error, name) from None


def _told(model: type[BaseModel], error: ValidationError, name: str) -> InvalidArgument:
    """The first thing that is wrong. Of a choice between several forms every one is told."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    places = [_place(model, e["loc"]) for e in found]
    place, holder = places[0]
    field = _dotted(name, place)
    if found[0]["type"] == "extra_forbidden":
        known = hint(str(place[-1]), holder.model_fields)
        return InvalidArgument(f"{_dotted(name, place[:-1])} has no field {place[-1]!r}{known}", field=field)
    here = [e["msg"] for e, at in zip(found, places, strict=True) if at[0] == place]
    why = dict.fromkeys(msg.removeprefix("Input should be ").replace("a valid tuple", "a list") for msg in here)
    return InvalidArgument(f"{field}: it should be {' or '.join(why)}", field=field)


def _place(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[tuple[int | str, ...], type[BaseModel]]:
    """Names of fields and positions only, without the names of the forms that were tried; and the last model on it."""
    place: list[int | str] = []
    holder: type[BaseModel] | None = model
    last = model
    for part in loc:
        if isinstance(part, str) and holder is None:
            break
        place.append(part)
        if isinstance(part, str) and holder is not None:
            last = holder
            known = holder.model_fields.get(part)
            holder = _model_in(known.annotation) if known is not None else None
    return tuple(place), last


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _dotted(name: str, place: tuple[int | str, ...]) -> str:
    return name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
