"""The four message tools bound to one person, for one recall: checked, counted, and with no place for anybody's id."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mnemon.contracts.errors import InvalidArgument, MnemonError
from mnemon.contracts.recall import Call, Limits, Round, Seen, ToolName
from mnemon.contracts.results import Message, MessageHit, MessageHitPage, MessagePage
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Role
from mnemon.logic.hints import hint
from mnemon.pipelines.messages import MAX_PAGE, MessageTools

# Whose messages are read is said by the scope alone.
WHOSE = frozenset(
    {"user_id", "user", "tenant_id", "tenant", "product_id", "group_id", "agent_id", "owner", "principals", "scope"}
)
# A search for a whole book is none.
MAX_QUERY = 10_000
_log = logging.getLogger(__name__)


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Span(_Arguments):
    since: str | None = None
    until: str | None = None


class Filter(_Arguments):
    role: Role | None = None
    time_range: Span | None = None
    session_id: str | None = None


class MessagesList(_Arguments):
    since: str | None = None
    until: str | None = None
    role: Role | None = None
    page_size: int = Field(default=20, ge=1, le=MAX_PAGE)
    cursor: str | None = None


class LexicalSearch(_Arguments):
    query_text: str = Field(max_length=MAX_QUERY)
    filter: Filter | None = None
    page_size: int = Field(default=20, ge=1, le=MAX_PAGE)
    cursor: str | None = None


class SemanticSearch(_Arguments):
    query_text: str | None = Field(default=None, max_length=MAX_QUERY)
    query_embedding: list[float] | None = None
    filter: Filter | None = None
    top_k: int = Field(default=20, ge=1, le=MAX_PAGE)
    min_score: float | None = None


class Neighbors(_Arguments):
    message_id: str
    before: int = Field(default=20, ge=0, le=MAX_PAGE)
    after: int = Field(default=0, ge=0, le=MAX_PAGE)


TOOLS: dict[str, type[_Arguments]] = {
    "messages_list": MessagesList,
    "lexical_search": LexicalSearch,
    "semantic_search": SemanticSearch,
    "neighbors": Neighbors,
}


class BoundTools:
    """Made for one run: how often they were used, by which routes, and every message they brought."""

    def __init__(self, messages: MessageTools, scope: Scope) -> None:
        self._messages = messages
        self._scope = scope
        self.calls = 0
        self.routes: dict[ToolName, None] = {}
        self.read: dict[str, Message] = {}
        self.failures: list[tuple[ToolName, MnemonError]] = []

    @property
    def fruitless(self) -> bool:
        """Was every call a failure?"""
        return 0 < self.calls == len(self.failures)

    async def use(self, call: Call) -> Seen:
        """One call; what is wrong with it, or goes wrong in it, comes back as its error."""
        self.calls += 1
        try:
            seen = await self._carry_out(call.tool, checked(call.tool, call.arguments))
        except MnemonError as error:
            self.failures.append((call.tool, error))
            return Seen(error=error.message)
        self.routes[call.tool] = None
        self.read |= {message.message_id: message for message in seen.messages}
        return seen

    def counted(self, limits: Limits, trace: Sequence[Round], truncated: bool) -> Limits:
        """How far was looked, with what it took."""
        cost = {
            "messages_considered": len(self.read),
            "routes": tuple(self.routes),
            "rounds": trace[-1].number if trace else 0,
            "calls": self.calls,
            "truncated": limits.truncated or truncated,
        }
        return limits.model_copy(update=cost)

    async def _carry_out(self, tool: ToolName, arguments: dict[str, Any]) -> Seen:
        found = await getattr(self._messages, tool)(self._scope, **arguments)
        match found:
            case MessagePage(items, cursor):
                return Seen(items, more=cursor is not None)
            case MessageHitPage(hits, cursor):
                return _of_hits(hits, cursor is not None)
            case _ if tool == "neighbors":
                return Seen(tuple(found))
            case _:
                return _of_hits(found, len(found) >= arguments["top_k"])


def checked(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the tool takes them. One that names a person is left out, and the log says so; any other that
    the tool does not have is an error."""
    form = TOOLS.get(tool)
    if form is None:
        raise InvalidArgument(f"there is no tool {tool!r}{hint(tool, TOOLS)}", field="tool")
    own, smuggled = _without_whose(arguments)
    if smuggled:
        _log.warning("%s was given %s, which is not listened to: the scope says who asks", tool, ", ".join(smuggled))
    try:
        given = form.model_validate(own)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{where}: {first['msg']}", field=where) from None
    return given.model_dump(mode="json", exclude_none=True)


def _without_whose(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    smuggled: list[str] = []
    for name, value in arguments.items():
        if name in WHOSE:
            smuggled.append(name)
        elif isinstance(value, Mapping):
            kept[name], inner = _without_whose(value)
            smuggled += [f"{name}.{part}" for part in inner]
        else:
            kept[name] = value
    return kept, smuggled


def _of_hits(hits: tuple[MessageHit, ...], more: bool) -> Seen:
    return Seen(tuple(hit.message for hit in hits), tuple(hit.score for hit in hits), more)
