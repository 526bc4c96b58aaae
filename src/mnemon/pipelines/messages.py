"""The message tools: read, find words, find meaning, look around; each within a scope and nothing beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mnemon.contracts.entries import Ask, Entry, Hit, Page, Vector
from mnemon.contracts.errors import BadCursor, InvalidArgument, NotFound, Unavailable
from mnemon.contracts.filters import Eq, OrderBy, Range, Where, every
from mnemon.contracts.ports import Archive, Clock, Embedder, Index
from mnemon.contracts.results import Message, MessageHit, MessageHitPage, MessagePage
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Role
from mnemon.logic.admission import unit
from mnemon.logic.lexical import highlights, parse
from mnemon.logic.listing import foreign_cursor, from_cursor, is_text, to_cursor
from mnemon.logic.moments import moment_ms
from mnemon.pipelines.index.projection import TURN
from mnemon.pipelines.index.reading import is_shown, scroll_shown, search_shown

MAX_PAGE = 200
Moment = str | datetime
Filter = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessageTools:
    archive: Archive
    index: Index
    embedder: Embedder
    clock: Clock

    async def messages_list(
        self,
        scope: Scope,
        since: Moment | None = None,
        until: Moment | None = None,
        role: str | None = None,
        page_size: int = 50,
        cursor: str | None = None,
        session_id: str | None = None,
    ) -> MessagePage:
        where = _where({"role": role, "time_range": {"since": since, "until": until}, "session_id": session_id})
        page = await self._scroll(scope, where, "newest", _page_size(page_size), cursor)
        return MessagePage(tuple(_message(e) for e in page.entries), page.next_cursor)

    async def lexical_search(
        self,
        scope: Scope,
        query_text: str,
        filter: Filter | None = None,
        page_size: int = 20,
        cursor: str | None = None,
    ) -> MessageHitPage:
        if not self.index.abilities.lexical:
            raise Unavailable("this index cannot search for words")
        query = parse(_text("query_text", query_text))
        limit = _page_size(page_size)
        after = _after(cursor, query_text)
        ask = Ask(text=query_text, where=_where(filter or {}), limit=limit + 1, after=after)
        hits = await self._search(scope, ask)
        items = tuple(MessageHit(_message(h.entry), h.score, highlights(query, h.entry.text)) for h in hits[:limit])
        more = len(hits) > limit
        return MessageHitPage(
            items, to_cursor(float(hits[limit - 1].score), hits[limit - 1].entry.id, query_text) if more else None
        )

    async def semantic_search(
        self,
        scope: Scope,
        query_text: str | None = None,
        query_embedding: Sequence[float] | None = None,
        filter: Filter | None = None,
        top_k: int = 20,
        min_score: float | None = None,
    ) -> tuple[MessageHit, ...]:
        if not self.index.abilities.dense:
            raise Unavailable("this index cannot search by meaning")
        if (query_text is None) == (query_embedding is None):
            raise InvalidArgument("give either query_text or query_embedding", field="query_text")
        if query_embedding is not None:
            vector = _unit(query_embedding, self.embedder.dimension)
        else:
            vector = (await self.embedder.embed_texts([_text("query_text", query_text)], "query"))[0].dense_vector
        if not 1 <= top_k <= MAX_PAGE:
            raise InvalidArgument(f"top_k must be between 1 and {MAX_PAGE}", field="top_k")
        ask = Ask(vector=vector, where=_where(filter or {}), limit=top_k, min_score=min_score)
        return tuple(MessageHit(_message(h.entry), h.score) for h in await self._search(scope, ask))

    async def neighbors(self, scope: Scope, message_id: str, before: int = 20, after: int = 0) -> tuple[Message, ...]:
        """The message between those said before and after it in its session, in the order they were said."""
        for name, value in (("before", before), ("after", after)):
            if not 0 <= value <= MAX_PAGE:
                raise InvalidArgument(f"{name} must be between 0 and {MAX_PAGE}", field=name)
        anchor = await self._message_entry(scope, message_id)
        here = every(Eq("kind", TURN), Eq("uri", anchor.fields["uri"]))
        around: list[Entry] = []
        if before:
            earlier = every(here, Range("seq", lt=anchor.fields["seq"]))
            around += reversed((await self._scroll(scope, earlier, "position_desc", before)).entries)
        around.append(anchor)
        if after:
            later = every(here, Range("seq", gt=anchor.fields["seq"]))
            around += (await self._scroll(scope, later, "position", after)).entries
        return tuple(_message(e) for e in around)

    async def attachment(self, scope: Scope, message_id: str, sha256: str) -> bytes:
        """The whole of what a message carries, for instance a tool output that was cut; only through the message."""
        entry = await self._message_entry(scope, message_id)
        if sha256 not in {a.get("sha256") for a in entry.metadata.get("attachments", [])}:
            raise NotFound(f"message {message_id} has no attachment {sha256}", message_id=message_id)
        return await self.archive.get_blob(scope, sha256)

    async def _search(self, scope: Scope, ask: Ask) -> list[Hit]:
        return await search_shown(self.index, scope, ask, self.clock.now())

    async def _scroll(self, scope: Scope, where: Where, order: OrderBy, limit: int, cursor: str | None = None) -> Page:
        return await scroll_shown(self.index, scope, where, order, limit, cursor, self.clock.now())

    async def _message_entry(self, scope: Scope, message_id: str) -> Entry:
        found = await self.index.get(scope, [_text("message_id", message_id)])
        if not found or found[0].kind != TURN or not is_shown(found[0], self.clock.now()):
            raise NotFound(f"no message {message_id} in this scope", message_id=message_id)
        return found[0]


def _message(entry: Entry) -> Message:
    fields = entry.fields
    ts = datetime.fromtimestamp(fields["ts"] / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    meta = {"turn_id": fields["turn_id"], "seq": fields["seq"], "uri": fields["uri"], **entry.metadata}
    return Message(entry.id, ts, fields["role"], entry.text, fields["session_id"], fields.get("speaker", ""), meta)


def _where(filter_: Filter) -> Where:
    """`{role?, time_range?{since, until}, session_id?}`; since counts, until does not."""
    _known("filter", filter_, ("role", "time_range", "session_id"))
    span = filter_.get("time_range") or {}
    if not isinstance(span, dict):
        raise InvalidArgument("filter.time_range must be {since?, until?}", field="filter.time_range")
    _known("filter.time_range", span, ("since", "until"))
    role = filter_.get("role")
    if role is not None and role not in list(Role):
        raise InvalidArgument(f"role must be one of {', '.join(Role)}, not {role!r}", field="role")
    since, until = moment_ms("since", span.get("since")), moment_ms("until", span.get("until"))
    session = filter_.get("session_id")
    return every(
        Eq("kind", TURN),
        Eq("role", str(role)) if role is not None else None,
        Range("ts", gte=since, lt=until) if since is not None or until is not None else None,
        Eq("session_id", _text("session_id", session)) if session is not None else None,
    )


def _known(name: str, given: Any, known: Sequence[str]) -> None:
    if not isinstance(given, dict):
        raise InvalidArgument(f"{name} must be an object", field=name)
    for key in given:
        if key not in known:
            raise InvalidArgument(f"{name} has no field {key!r}; known: {', '.join(known)}", field=f"{name}.{key}")


def _page_size(size: int) -> int:
    if not 1 <= size <= MAX_PAGE:
        raise InvalidArgument(f"page_size must be between 1 and {MAX_PAGE}", field="page_size")
    return size


def _text(name: str, value: str | None) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(f"{name} must be a non-empty string", field=name)
    return value


def _unit(values: Sequence[float], dimension: int) -> Vector:
    with np.errstate(over="ignore"):  # what is too large for the index is infinite there, and refused as such
        vector = np.asarray(values, dtype=np.float32)
    if vector.shape != (dimension,) or not np.isfinite(vector).all() or not vector.any():
        raise InvalidArgument(
            f"query_embedding must hold {dimension} finite numbers, not all zero", field="query_embedding"
        )
    return unit(vector)


def _after(cursor: str | None, query: str) -> tuple[float, str] | None:
    if cursor is None:
        return None
    score, id_, asked = from_cursor(cursor, 3)
    if asked != query:
        raise BadCursor("this cursor belongs to a search for other words", field="cursor")
    if not isinstance(score, float) or not is_text(id_):
        raise foreign_cursor()
    return score, id_
