"""OpenTelemetry GenAI spans to `agent_trace_v1`: in time order, each message once, though spans repeat the past."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mnemon.contracts.errors import MalformedInput
from mnemon.logic.adapters.agent_trace import SCHEMA
from mnemon.logic.adapters.fields import Data, as_written
from mnemon.logic.adapters.otel_messages import Message, input_messages, output_messages, text_of
from mnemon.logic.adapters.otel_spans import Span, iso_from_nanos, read_spans

AGENT_SPANS = ("invoke_agent", "create_agent")


@dataclass
class _Moment:
    """Something a span shows at a time: what it was given at its start, what it gave at its end."""

    nanos: int
    order: int
    span: Span
    messages: list[Message] = field(default_factory=list)
    is_new: bool = False


@dataclass
class _Trace:
    """The steps so far, and how often each message has been told in its conversation."""

    steps: list[Data] = field(default_factory=list)
    told: Counter[tuple[str, ...]] = field(default_factory=Counter)
    open_calls: dict[str, deque[str]] = field(default_factory=dict)
    traces: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)

    def name(self, message: Message) -> None:
        """A result in a chat's history names only the call it answers."""
        if message.kind == "tool_call" and message.call_id:
            self.names[message.call_id] = message.name
        elif message.kind == "tool_result" and not message.name:
            message.name = self.names.get(message.call_id, "")


def convert(spans: list[Any] | dict[str, Any]) -> Data:
    """An `agent_trace_v1` object for `normalise`. Takes OTLP JSON (`resourceSpans`) or a plain list of spans."""
    found = sorted(read_spans(spans), key=lambda span: (span.start, span.order))
    trace = _Trace()
    for moment in sorted(_moments(found), key=lambda moment: (moment.nanos, moment.order)):
        if moment.span.operation == "execute_tool":
            _tell_tool(trace, moment)
        else:
            _tell(trace, moment)
    if not trace.steps:
        raise MalformedInput(
            f"none of the {len(found)} spans holds a message; expected gen_ai.input.messages, gen_ai.output.messages "
            "or gen_ai.*.message events (instrumentations record content only when told to)",
            expected="gen_ai messages",
        )
    for number, step in enumerate(trace.steps, 1):
        step["step_id"] = f"s{number:06d}"
    return {
        "schema": SCHEMA,
        "trace_id": found[0].trace_id or "unknown",
        "source": "opentelemetry",
        "steps": trace.steps,
    }


def _moments(spans: list[Span]) -> Iterator[_Moment]:
    for number, span in enumerate(spans):
        if span.operation == "execute_tool":
            yield _Moment(span.start, 2 * number, span)
            yield _Moment(max(span.end, span.start), 2 * number + 1, span, is_new=True)
            continue
        asked, answered = input_messages(span), output_messages(span)
        if span.operation in AGENT_SPANS:
            # An agent's span wraps the chats that already tell its answer; both ends count as a repetition.
            yield _Moment(span.start, 2 * number, span, asked)
            yield _Moment(max(span.end, span.start), 2 * len(spans) + number, span, asked + answered)
        else:
            yield _Moment(span.start, 2 * number, span, asked)
            yield _Moment(max(span.end, span.start), 2 * number + 1, span, answered, is_new=True)


def _tell(trace: _Trace, moment: _Moment) -> None:
    """Of a repeated history only what it holds more often than already told is new; an answer is always new."""
    span = moment.span
    here: Counter[tuple[str, ...]] = Counter()
    begins = _begins_anew(trace, moment)
    for message in moment.messages:
        key = (span.conversation, *message.key)
        here[key] += 1
        known = here[key] <= trace.told[key]
        if (moment.is_new and not message.call_id) or (begins and message.kind == "user_message"):
            known = False
        if not known:
            trace.told[key] += 1
            trace.name(message)
            trace.steps.append(_step(message, moment))
            if message.kind == "tool_call":
                trace.open_calls.setdefault(message.name, deque()).append(message.call_id)
    if moment.messages:
        trace.traces.add(span.trace_id)
    if moment.is_new and span.error and not moment.messages:
        trace.steps.append(_stamped({"type": "error", "text": span.error}, moment))


def _begins_anew(trace: _Trace, moment: _Moment) -> bool:
    """A first request in a trace of its own repeats nothing, even when somebody says "hi" a second time."""
    if moment.is_new or moment.span.operation in AGENT_SPANS or moment.span.trace_id in trace.traces:
        return False
    return bool(trace.traces) and all(m.kind in ("user_message", "system_message") for m in moment.messages)


def _step(message: Message, moment: _Moment) -> Data:
    step: Data = {"type": message.kind}
    if message.kind in ("tool_call", "tool_result"):
        tool: Data = {"name": message.name or "tool"}
        if message.call_id:
            tool["call_id"] = message.call_id
        tool["arguments" if message.kind == "tool_call" else "output"] = message.body
        step["tool"] = tool
    else:
        step["text"] = message.text
    if message.attachments:
        step["attachments"] = message.attachments
    if message.speaker:
        step["speaker"] = message.speaker
    if moment.is_new and moment.span.usage and message.kind != "thought":
        step["usage"], moment.span.usage = moment.span.usage, {}
    return _stamped(step, moment, by_agent=message.kind not in ("user_message", "system_message", "tool_result"))


def _stamped(step: Data, moment: _Moment, by_agent: bool = True) -> Data:
    span = moment.span
    if by_agent and span.agent:
        step["agent"] = span.agent
    if span.parent_id:
        step["parent_id"] = span.parent_id
    if moment.nanos:
        step["timestamp"] = iso_from_nanos(moment.nanos)
    step["meta"] = {"span_id": span.span_id, **({"model": span.model} if span.model else {})}
    return step


def _tell_tool(trace: _Trace, moment: _Moment) -> None:
    """The tool's own span knows how long it took and whether it worked; the chats around it only repeat it."""
    span = moment.span
    name = text_of(span.attributes.get("gen_ai.tool.name")) or span.name.removeprefix("execute_tool ").strip() or "tool"
    if not moment.is_new:
        arguments = span.attributes.get("gen_ai.tool.call.arguments", {})
        span.call_id = _call_id(trace, span, name, arguments)
        call = Message("tool_call", name=name, call_id=span.call_id, body=arguments)
        key = (span.conversation, *call.key)
        if not trace.told[key]:
            trace.told[key] += 1
            trace.steps.append(_step(call, moment))
        return
    result = span.attributes.get("gen_ai.tool.call.result")
    answer = Message("tool_result", name=name, call_id=span.call_id, body="" if result is None else result)
    trace.told[(span.conversation, *answer.key)] += 1
    step = _step(answer, moment)
    step["tool"] |= {"ok": not span.error, "duration_ms": (moment.nanos - span.start) / 1e6}
    if span.error:
        step["tool"]["error"] = span.error
        if result is None:
            del step["tool"]["output"]
    trace.steps.append(step)


def _call_id(trace: _Trace, span: Span, name: str, arguments: Any) -> str:
    """A span without the call's id is the oldest call of that name not yet run."""
    given = text_of(span.attributes.get("gen_ai.tool.call.id"))
    waiting = trace.open_calls.get(name, deque())
    if given:
        if given in waiting:
            waiting.remove(given)
        return given
    if waiting:
        return waiting.popleft()
    return f"{span.span_id or as_written(arguments)}"
