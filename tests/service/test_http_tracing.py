"""Spans, where they are wanted: one for each request, within the trace its caller began."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conftest import Start
from mnemon.contracts.errors import MissingExtra
from mnemon.surfaces.http.tracing import Tracing

trace = pytest.importorskip("opentelemetry.trace")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Span:
    def __init__(self) -> None:
        self.name = ""
        self.said: dict[str, Any] = {}

    def set_attribute(self, name: str, value: Any) -> None:
        self.said[name] = value

    def update_name(self, name: str) -> None:
        self.name = name


class Tracer:
    def __init__(self) -> None:
        self.spans: list[tuple[Span, str]] = []

    @contextmanager
    def start_as_current_span(self, name: str, context: Any, kind: Any) -> Iterator[Span]:
        span = Span()
        yield span
        self.spans.append((span, f"{trace.get_current_span(context).get_span_context().trace_id:032x}"))


async def test_a_request_is_a_span_of_its_callers_trace(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    service = await start(tracing=True)
    headers = {"X-Tenant-ID": "acme", "X-User-ID": "ann", "traceparent": PARENT}
    assert (await service.get("/v1/messages", headers)).status_code == 200
    ((span, parent),) = tracer.spans
    assert span.name == "GET /v1/messages"
    assert span.said == {"http.response.status_code": 200, "http.route": "/v1/messages"}
    assert parent == PARENT.split("-")[1]


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("mnemon.surfaces.http.tracing.import_module", missing)
    with pytest.raises(MissingExtra, match="pip install opentelemetry-sdk"):
        Tracing(None)  # type: ignore[arg-type]
