"""A port's methods as requests and answers in JSON, worked out from their own signatures: a port that is served over
HTTP and the driver that asks for it cannot drift apart."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from mnemon.contracts.errors import InvalidArgument

_BYTES = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method. `streams`: it gives one thing after the other instead of one."""

    name: str
    signature: inspect.Signature
    hints: Mapping[str, Any]
    takes: Mapping[str, TypeAdapter[Any]]
    gives: TypeAdapter[Any]
    returns: Any
    streams: bool

    def request(self, *args: Any, **kwargs: Any) -> bytes:
        """A call as the body of a request; what is left out stays out."""
        bound = self.signature.bind(*args, **kwargs).arguments
        try:
            return to_json({name: self.takes[name].dump_python(value, mode="json") for name, value in bound.items()})
        except PydanticSerializationError as error:
            raise InvalidArgument(f"{self.name}: this cannot be said in JSON: {error}", field=self.name) from None

    def arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request as a call."""
        given: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if name in body:
                try:
                    given[name] = self.takes[name].validate_python(body[name])
                except ValidationError as error:
                    first = error.errors()[0]
                    place = ".".join([name, *(str(part) for part in first["loc"])])
                    raise InvalidArgument(f"{place}: {first['msg']}", field=place, reason=first["type"]) from None
            elif parameter.default is inspect.Parameter.empty:
                raise InvalidArgument(f"{name} is missing", field=name, reason="missing")
        for name in body:
            if name not in given:
                raise InvalidArgument(f"{self.name} takes no {name}", field=name, reason="extra_forbidden")
        return given

    def answer(self, value: Any) -> bytes:
        return self.gives.dump_json(value)

    def result(self, raw: bytes | str) -> Any:
        return self.gives.validate_json(raw)


@cache
def operations(port: type, without: frozenset[str] = frozenset()) -> dict[str, Operation]:
    """Every method of a port, but for those that cannot be said in JSON."""
    found = {}
    for name in dir(port):
        method = getattr(port, name)
        if not name.startswith("_") and name not in without and inspect.isfunction(method):
            found[name] = _operation(name, method)
    return found


def _operation(name: str, method: Any) -> Operation:
    hints = get_type_hints(method)
    gives = hints.pop("return")
    streams = get_origin(gives) is AsyncIterator
    whole = inspect.signature(method)
    parameters = [p for p in whole.parameters.values() if p.name != "self"]
    returns = get_args(gives)[0] if streams else gives
    return Operation(
        name,
        whole.replace(parameters=parameters),
        hints,
        {p.name: _adapter(hints[p.name]) for p in parameters},
        _adapter(returns),
        returns,
        streams,
    )


def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=_BYTES) if _is_plain(kind) else TypeAdapter(kind)


def _is_plain(kind: Any) -> bool:
    """Bytes, alone or within a tuple: the only kinds whose form in JSON has to be said."""
    return kind is bytes or (get_origin(kind) is tuple and bytes in get_args(kind))
