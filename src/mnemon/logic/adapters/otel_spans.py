"""One shape for the spans of OTLP JSON and of the SDKs' own JSON dumps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mnemon.contracts.turns import parse_time
from mnemon.logic.adapters import fields
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.strict_json import check_tree
from mnemon.logic.adapters.times import iso_utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALARS = ("stringValue", "boolValue", "doubleValue", "bytesValue")


@dataclass
class Span:
    name: str
    span_id: str
    trace_id: str
    parent_id: str
    start: int
    end: int
    order: int
    attributes: Data
    events: list[tuple[str, Data]]
    error: str = ""
    call_id: str = ""
    usage: Data = field(default_factory=dict)

    @property
    def operation(self) -> str:
        value = self.attributes.get("gen_ai.operation.name")
        return value if isinstance(value, str) else self.name.partition(" ")[0]

    @property
    def conversation(self) -> str:
        value = self.attributes.get("gen_ai.conversation.id")
        return value if isinstance(value, str) else ""

    @property
    def agent(self) -> str:
        value = self.attributes.get("gen_ai.agent.name")
        return value if isinstance(value, str) else ""

    @property
    def model(self) -> str:
        for key in ("gen_ai.response.model", "gen_ai.request.model"):
            value = self.attributes.get(key)
            if isinstance(value, str) and value:
                return value
        return ""


def iso_from_nanos(nanos: int) -> str:
    return iso_utc(_EPOCH + timedelta(microseconds=nanos // 1_000))


def read_spans(data: list[Any] | dict[str, Any]) -> list[Span]:
    """Only spans that speak GenAI: the others are HTTP calls and databases."""
    check_tree(data, Place())
    spans = [_span(value, place, number) for number, (value, place) in enumerate(_raw(data))]
    return [span for span in spans if any(key.startswith("gen_ai.") for key in span.attributes) or _speaks(span)]


def _speaks(span: Span) -> bool:
    return any(name.startswith("gen_ai.") for name, _ in span.events)


def _raw(data: object) -> Iterator[tuple[object, Place]]:
    if isinstance(data, list):
        for number, value in enumerate(data):
            if isinstance(value, dict) and "resourceSpans" in value:
                yield from _raw(value)
            else:
                yield value, Place().item(number)
        return
    root = fields.as_object(data, Place())
    if "resourceSpans" not in root:
        if isinstance(root.get("spans"), list):
            yield from _listed(root, "spans", Place())
            return
        raise Place().error("the object holds no spans", "`resourceSpans[].scopeSpans[].spans[]`, or a list of spans")
    for resource, where in _listed(root, "resourceSpans", Place()):
        for scope, inside in _listed(fields.as_object(resource, where), "scopeSpans", where):
            yield from _listed(fields.as_object(scope, inside), "spans", inside)


def _listed(data: Data, key: str, place: Place) -> Iterator[tuple[object, Place]]:
    for number, value in enumerate(fields.optional_list(data, key, place) or []):
        yield value, place.key(key).item(number)


def _span(value: object, place: Place, order: int) -> Span:
    data = fields.as_object(value, place)
    context = fields.optional_object(data, "context", place) or {}
    attributes = _attributes(data.get("attributes"), place.key("attributes"))
    start = _nanos(data, ("startTimeUnixNano", "start_time", "startTime"), place)
    events = []
    for number, entry in enumerate(fields.optional_list(data, "events", place) or []):
        here = place.key("events").item(number)
        event = fields.as_object(entry, here)
        inner = _attributes(event.get("attributes"), here.key("attributes"))
        events.append((fields.optional_text(event, "name", here) or "", inner))
    return Span(
        name=fields.optional_text(data, "name", place) or "",
        span_id=_id(data.get("spanId") or context.get("span_id")),
        trace_id=_id(data.get("traceId") or context.get("trace_id")),
        parent_id=_id(data.get("parentSpanId") or data.get("parent_id")),
        start=start,
        end=_nanos(data, ("endTimeUnixNano", "end_time", "endTime"), place) or start,
        order=order,
        attributes=attributes,
        events=events,
        error=_error(data, attributes),
        usage=_usage(attributes),
    )


def _id(value: object) -> str:
    return value if isinstance(value, str) else ""


def _attributes(value: object, place: Place) -> Data:
    """OTLP writes a list of `{key, value: {stringValue: …}}`; SDK dumps write a plain object."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        raise place.wrong(value, "an object, or a list of `{key, value}`")
    attributes: Data = {}
    for number, entry in enumerate(value):
        here = place.item(number)
        pair = fields.as_object(entry, here)
        attributes[fields.text(pair, "key", here)] = _any_value(pair.get("value"), here.key("value"))
    return attributes


def _any_value(value: object, place: Place) -> Any:
    if value is None:
        return None
    data = fields.as_object(value, place)
    for key in _SCALARS:
        if key in data:
            return data[key]
    if "intValue" in data:
        # 64-bit integers travel as text in OTLP JSON.
        number = data["intValue"]
        try:
            return int(number)
        except (TypeError, ValueError):
            raise place.key("intValue").wrong(number, "a whole number") from None
    if "arrayValue" in data:
        inner = fields.as_object(data["arrayValue"], place.key("arrayValue"))
        return [_any_value(item, here) for item, here in _listed(inner, "values", place.key("arrayValue"))]
    if "kvlistValue" in data:
        inner = fields.as_object(data["kvlistValue"], place.key("kvlistValue"))
        return _attributes(inner.get("values"), place.key("kvlistValue").key("values"))
    return None


def _nanos(data: Data, keys: tuple[str, ...], place: Place) -> int:
    for key in keys:
        value = data.get(key)
        if value is None:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
        if isinstance(value, str):
            if value.isascii() and value.isdigit() and len(value) < 20:
                return int(value)
            try:
                return (parse_time(value) - _EPOCH) // timedelta(microseconds=1) * 1_000
            except (ValueError, OverflowError):
                pass
        raise place.key(key).wrong(value, "nanoseconds since 1970, or an ISO 8601 time")
    return 0


def _error(data: Data, attributes: Data) -> str:
    status = data.get("status")
    if isinstance(status, dict):
        code = status.get("code", status.get("status_code"))
        if code in (2, "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"):
            said = status.get("message") or status.get("description") or attributes.get("error.type")
            return said if isinstance(said, str) and said else "error"
    kind = attributes.get("error.type")
    return kind if isinstance(kind, str) else ""


def _usage(attributes: Data) -> Data:
    names = {
        "gen_ai.usage.input_tokens": "input_tokens",
        "gen_ai.usage.output_tokens": "output_tokens",
        "gen_ai.usage.prompt_tokens": "input_tokens",
        "gen_ai.usage.completion_tokens": "output_tokens",
    }
    usage: Data = {}
    for theirs, ours in names.items():
        value = attributes.get(theirs)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            usage.setdefault(ours, value)
    return usage
