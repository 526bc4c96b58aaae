"""What a Memory Service does at its own desks: each call is one of its requests, and its answer what the call gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from string import Formatter
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from mnemon.contracts.chats import (
    ChatContext,
    EndCall,
    EndResult,
    EventHit,
    Profile,
    ProfileDiff,
    ProfileHit,
    ProfileVersion,
)
from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.graph import Entity, Event, Evidence, GraphPage, PendingEquiv, TimeSlice
from mnemon.contracts.graph_results import Explanation, GraphReceipt, HeldState, Resolution, StateChange
from mnemon.contracts.memories import EntryVersion, SearchResult, WriteReceipt
from mnemon.contracts.nodes import Node, NodeKey, NodeSummary, Revision
from mnemon.contracts.results import ClaimPage, ForgetReceipt, Message, MessageHit, MessageHitPage, MessagePage
from mnemon.contracts.scope import Owner, Scope
from mnemon.drivers.service import ServiceClient

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEADERS = {"u": "X-User-ID", "p": "X-Product-ID", "g": "X-Group-ID", "a": "X-Agent-ID"}


@dataclass(frozen=True, slots=True)
class Route:
    """How a call is said: its arguments after the scope by name, those in the path put there, those left empty left
    out. `fixed` is sent along."""

    verb: str
    path: str
    names: tuple[str, ...]
    gives: Callable[[bytes], Any]
    fixed: Mapping[str, Any] | None = None


def _of(kind: Any) -> Callable[[bytes], Any]:
    return TypeAdapter(kind).validate_json


def _items(kind: Any) -> Callable[[bytes], Any]:
    """A list that comes under `items`."""
    adapter = TypeAdapter(dict[str, list[kind]])
    return lambda raw: adapter.validate_json(raw)["items"]


def _row(kind: Any) -> Callable[[bytes], Any]:
    listed = _items(kind)
    return lambda raw: tuple(listed(raw))


def _page(kind: type[Any]) -> Callable[[bytes], GraphPage]:
    adapter = TypeAdapter(dict[str, tuple[kind, ...] | str | None])  # type: ignore[valid-type]

    def read(raw: bytes) -> GraphPage:
        told: dict[str, Any] = adapter.validate_json(raw)
        return GraphPage(told["items"], told.get("next_cursor"))

    return read


_DURING = ("since", "until", "limit", "cursor")
_TOOLS = "/v1/messages"
_GRAPH = "/graph/v0"
_CHATS = "/v1/cognitive"
_OF = f"{_CHATS}/profiles/{{entity_type}}/{{entity_id}}"
_WHOSE = ("entity_type", "entity_id")

MESSAGES = {
    "messages_list": Route(
        "GET", _TOOLS, ("since", "until", "role", "page_size", "cursor", "session_id"), _of(MessagePage)
    ),
    "lexical_search": Route(
        "POST", f"{_TOOLS}/lexical_search", ("query_text", "filter", "page_size", "cursor"), _of(MessageHitPage)
    ),
    "semantic_search": Route(
        "POST",
        f"{_TOOLS}/semantic_search",
        ("query_text", "query_embedding", "filter", "top_k", "min_score"),
        _row(MessageHit),
    ),
    "neighbors": Route("GET", f"{_TOOLS}/{{message_id}}/neighbors", ("message_id", "before", "after"), _row(Message)),
    "attachment": Route("GET", f"{_TOOLS}/{{message_id}}/attachments/{{sha256}}", ("message_id", "sha256"), bytes),
}
CLAIMS = {
    "listed": Route("GET", "/v1/claims", ("state", "kind", "shelf", "session_id", "limit", "cursor"), _of(ClaimPage)),
    "get": Route("GET", "/v1/claims/{claim_id}", ("claim_id",), _of(Claim)),
    "confirm": Route("POST", "/v1/claims/{claim_id}/confirm", ("claim_id",), _of(Claim)),
    "reject": Route("POST", "/v1/claims/{claim_id}/reject", ("claim_id",), _of(Claim)),
    "correct": Route("POST", "/v1/claims/{claim_id}/correct", ("claim_id", "statement", "reason"), _of(Claim)),
}
NODES = {
    "listed": Route("GET", "/v1/nodes", ("owner", "shelf"), _items(NodeSummary)),
    "read": Route("GET", "/v1/nodes/one", ("uri",), _of(Node)),
    "revisions": Route("GET", "/v1/nodes/history", ("uri",), _items(Revision)),
    "move": Route("POST", "/v1/nodes/move", ("uri", "name"), _of(Node)),
}
ENTRIES = {
    "write": Route("POST", "/write", ("entries", "links", "upsert"), _of(WriteReceipt), {"return_id_map": True}),
    "update": Route("POST", "/update", ("id", "patch", "reason"), _of(WriteReceipt)),
    "delete": Route("POST", "/delete", ("id", "soft", "reason"), _of(WriteReceipt)),
    "rollback": Route("POST", "/rollback", ("version", "reason"), _of(WriteReceipt)),
    "history": Route("GET", "/v1/entries/{id}/history", ("id",), _row(EntryVersion)),
}
GRAPH = {
    "events": Route("GET", f"{_GRAPH}/events", _DURING, _page(Event)),
    "event": Route("GET", f"{_GRAPH}/events/{{id}}", ("id",), _of(Event)),
    "entities": Route("GET", f"{_GRAPH}/entities", ("name", "limit", "cursor"), _page(Entity)),
    "resolve": Route("GET", f"{_GRAPH}/entities/resolve", ("name",), _of(Resolution)),
    "timeline": Route("GET", f"{_GRAPH}/entities/{{id}}/timeline", ("id", *_DURING), _page(Event)),
    "evidences": Route("GET", f"{_GRAPH}/entities/{{id}}/evidences", ("id", "limit", "cursor"), _page(Evidence)),
    "timeslices": Route(
        "GET", f"{_GRAPH}/timeslices/range", ("start_iso", "end_iso", "kind", "limit", "cursor"), _page(TimeSlice)
    ),
    "explain_event": Route("GET", f"{_GRAPH}/explain/event/{{id}}", ("id",), _of(Explanation)),
    "explain_knowledge": Route("GET", f"{_GRAPH}/explain/knowledge/{{id}}", ("id",), _of(Explanation)),
    "states_current": Route("GET", f"{_GRAPH}/states/current", ("subject", "property", "known_at"), _row(HeldState)),
    "states_at": Route("GET", f"{_GRAPH}/states/at_time", ("subject", "when", "property", "known_at"), _row(HeldState)),
    "states_changes": Route(
        "GET", f"{_GRAPH}/states/changes", ("subject", "property", "since", "until"), _row(StateChange)
    ),
    "pending_equivs": Route("GET", f"{_GRAPH}/pending_equivs", (), _row(PendingEquiv)),
    "approve": Route("POST", f"{_GRAPH}/pending_equivs/{{id}}/approve", ("id",), _of(PendingEquiv)),
    "reject": Route("POST", f"{_GRAPH}/pending_equivs/{{id}}/reject", ("id",), _of(PendingEquiv)),
}
CHATS = {
    "get_profile": Route("GET", _OF, _WHOSE, _of(Profile)),
    "search_profiles": Route("POST", f"{_CHATS}/search_profiles", ("query", *_WHOSE, "top_k"), _row(ProfileHit)),
    "profile_history": Route("GET", f"{_OF}/history", _WHOSE, _row(ProfileVersion)),
    "profile_diff": Route("GET", f"{_OF}/diff", (*_WHOSE, "from_version", "to_version"), _of(ProfileDiff)),
    "rollback_profile": Route("POST", f"{_OF}/rollback", (*_WHOSE, "version"), _of(Profile)),
}
_END = Route("POST", "/v1/end", (), _of(EndResult))
_EVENTS = Route(
    "POST",
    f"{_CHATS}/search_events",
    ("query", "target_user_id", "target_group_id", "top_k", "time_from", "time_to"),
    _row(EventHit),
)
_CONTEXT = Route("POST", f"{_CHATS}/context", ("query", "top_k", "max_tokens"), _of(ChatContext))
_TELL = Route("POST", f"{_GRAPH}/upsert", (), _of(GraphReceipt))
_SEARCH = Route("POST", "/search", ("query", "topk", "filters", "graph_params"), _of(SearchResult))
_FORGET = Route("POST", "/v1/forget", ("what", "session_id", "claim_id", "words"), _of(ForgetReceipt))


class RemoteDesk:
    """Methods by the names of its routes."""

    def __init__(self, client: ServiceClient, routes: Mapping[str, Route]) -> None:
        self._client = client
        self._routes = routes

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        try:
            route = self._routes[name]
        except KeyError:
            if name.startswith("_"):
                raise AttributeError(name) from None
            raise InvalidArgument(
                "this is done where the memory is kept, not through a service", field="place"
            ) from None
        return lambda scope, *args, **named: self._ask(route, scope, *args, **named)

    async def _ask(self, route: Route, scope: Scope, *args: Any, **named: Any) -> Any:
        given = {**dict(zip(route.names, args, strict=False)), **named}
        body = {name: _plain(value) for name, value in given.items() if value is not None and not _is_said(value)}
        return await self._send(route, body, headers_of(scope))

    async def _send(self, route: Route, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        body |= route.fixed or {}
        path = route.path.format(
            **{name: quote(str(body.pop(name)), safe="") for _, name, _, _ in Formatter().parse(route.path) if name}
        )
        if route.verb == "GET":
            raw = await self._client.ask("GET", path, None, body, headers)
        else:
            raw = await self._client.ask(route.verb, path, to_json(body) if body else None, None, headers)
        return route.gives(raw)


class RemoteClaims(RemoteDesk):
    async def listed(self, scope: Scope, state: str | None = "active", *rest: Any) -> Any:
        return await self._ask(CLAIMS["listed"], scope, state or "any", *rest)


class RemoteGraph(RemoteDesk):
    async def upsert(self, scope: Scope, batch: Any) -> Any:
        return await self._send(_TELL, _plain(batch), headers_of(scope))


class RemoteChats(RemoteDesk):
    async def end(self, tenant_id: str, call: EndCall) -> EndResult:
        """It was checked here, and is meant."""
        body = call.model_dump(mode="json", exclude_defaults=True, exclude={"queued_at"}) | {"force": True}
        ended: EndResult = await self._send(_END, body, {"X-Tenant-ID": tenant_id})
        return ended

    async def context(
        self, scope: Scope, query: str, user_id: str, group_id: str, top_k: int, max_tokens: int
    ) -> ChatContext:
        """In a group the person is not part of the scope, but has a profile there."""
        body = {"query": query, "top_k": top_k, "max_tokens": max_tokens, **_private(scope)}
        made: ChatContext = await self._send(_CONTEXT, body, {**headers_of(scope), "X-User-ID": user_id})
        return made

    async def search_events(self, scope: Scope, *asked: Any) -> tuple[EventHit, ...]:
        *given, since_ms, until_ms = asked
        found: tuple[EventHit, ...] = await self._ask(_EVENTS, scope, *given, _iso(since_ms), _iso(until_ms))
        return found

    async def _ask(self, route: Route, scope: Scope, *args: Any, **named: Any) -> Any:
        return await super()._ask(route, scope, *args, **named, **_private(scope))


class RemoteEntries(RemoteDesk):
    async def bring_up(self, tenant_id: str) -> None:
        """The service keeps its own index."""

    async def search(self, scope: Scope, query: str, topk: int, filters: Any, follow: Any) -> Any:
        route = replace(_SEARCH, fixed={"expand_graph": follow is not None})
        return await self._ask(route, scope, query, topk, filters, follow)


class RemoteForgetter(RemoteDesk):
    async def finish(self) -> int:
        """The service finishes its own."""
        return 0

    async def unfinished(self) -> int:
        return 0

    async def forget(self, tenant_id: str, target: Mapping[str, Any]) -> Any:
        of_group = target.get("owner_kind") == "groups"
        owner = {"X-Group-ID" if of_group else "X-User-ID": target["owner_id"]} if "owner_id" in target else {}
        body = {name: target[name] for name in _FORGET.names if target.get(name) is not None}
        if of_group and body["what"] == "user":
            body["what"] = "group"
        return await self._send(_FORGET, body, {"X-Tenant-ID": tenant_id, **owner})


def headers_of(scope: Scope) -> dict[str, str]:
    """Who asks, for a service whose token does not say it."""
    named = {kind: name for kind, _, name in (p.partition(":") for p in sorted(scope.principals)) if name}
    return {"X-Tenant-ID": scope.tenant_id} | {_HEADERS[kind]: name for kind, name in named.items()}


def _private(scope: Scope) -> dict[str, bool]:
    """In a group, are the person's own memories to be seen as well?"""
    return {"include_private": True} if {"u", "g"} <= {p.partition(":")[0] for p in scope.principals} else {}


def _iso(ms: int | None) -> str | None:
    return None if ms is None else (_EPOCH + timedelta(milliseconds=ms)).isoformat()


def _is_said(value: Any) -> bool:
    """Whose nodes are listed stands in the headers."""
    return isinstance(value, Owner)


def _plain(value: Any) -> Any:
    match value:
        case NodeKey():
            return value.uri
        case Enum():
            return value.value
        case BaseModel():
            return value.model_dump(mode="json", exclude_unset=True, by_alias=True)
        case _:
            return to_jsonable_python(value)
