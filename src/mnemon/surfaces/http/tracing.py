"""Spans for OpenTelemetry, where it is installed and wanted; what collects them is set up by its own tools."""

from __future__ import annotations

from importlib import import_module

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemon.contracts.errors import MissingExtra


class Tracing:
    """A span for each request, within the trace the caller began."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        try:
            trace, self._propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
        except ImportError as error:
            raise MissingExtra("service.tracing needs a package: pip install opentelemetry-sdk") from error
        self._kind = trace.SpanKind.SERVER
        self._tracer = trace.get_tracer("mnemon.service")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        context = self._propagate.extract(carrier)
        with self._tracer.start_as_current_span(scope["method"], context, self._kind) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, sending)
            route = getattr(scope.get("route"), "path", "")
            span.update_name(f"{scope['method']} {route}".rstrip())
            span.set_attribute("http.route", route)
