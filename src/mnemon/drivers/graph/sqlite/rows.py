"""Items and edges as rows and back. Writing is done for tens of thousands at a time: what is stored was checked before
and is not looked at again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from mnemon.contracts.errors import Corrupt, InvalidArgument
from mnemon.contracts.graph import ITEM_TYPES, Entity, GraphEdge, GraphItem, ItemKind, Pointer
from mnemon.drivers.graph.sqlite.audiences import Audience
from mnemon.logic.graph.admission import called

NEVER = -(1 << 62)  # the time of what has none
FOREVER = 1 << 62

_ITEM_KEY = ("speech", "ident", "id", "audience", "closeness", "kind", "at", "learnt", "body")
_EDGE_KEY = ("speech", "src", "rel", "dst", "audience", "evidence")
_ITEM_REST = ("subject", "finish", "facet", "published", "expires")
_EDGE_REST = ("weight", "learnt", "published", "expires", "body")


def _put(table: str, key: tuple[str, ...], given: tuple[str, ...], changing: tuple[str, ...]) -> str:
    """What is said again as it stands is not touched: most of what goes with a turn was said with the one before."""
    return (
        f"INSERT INTO {table} ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})"
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in changing)}"
        f" WHERE ({', '.join(changing)}) IS NOT ({', '.join(f'excluded.{c}' for c in changing)})"
    )


def _put_item(*rest: str) -> str:
    return _put("item", ("speech", "ident"), (*_ITEM_KEY, *rest), (*_ITEM_KEY[5:], *_ITEM_REST))


def _put_edge(*rest: str) -> str:
    return _put("edge", ("speech", "src", "rel", "dst"), (*_EDGE_KEY, *rest), (_EDGE_KEY[5], *_EDGE_REST))


# A statement for the columns most rows have and one for all: each NULL that is handed over costs as much as a column
# of an index.
_PUT_ITEM, _PUT_ABOUT, _PUT_WHOLE_ITEM = _put_item(), _put_item("subject"), _put_item(*_ITEM_REST)
_PUT_EDGE, _PUT_WHOLE_EDGE = _put_edge(), _put_edge(*_EDGE_REST)
PUT_NAME = "INSERT OR IGNORE INTO name (folded, item) SELECT ?, row FROM item WHERE speech = ? AND ident = ?"
SELECT_ITEM = (
    "SELECT i.id, i.audience, i.kind, a.principals, a.domain, i.published, i.body"
    " FROM item i JOIN audience a ON a.id = i.audience"
)
SELECT_EDGE = (
    "SELECT src.id, e.rel, dst.id, e.audience, a.principals, a.domain, e.weight, e.learnt, e.published, e.expires,"
    " e.evidence, e.body"
    " FROM ({}) e JOIN audience a ON a.id = e.audience"
    " JOIN ident src ON src.number = e.src JOIN ident dst ON dst.number = e.dst"
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ELSEWHERE = {"tenant_id", "user_id", "memory_domain", "published"}
_ITEM_COLUMNS = {*_ELSEWHERE, "id"}
_EDGE_COLUMNS = {*_ELSEWHERE, "src_id", "rel_type", "dst_id", "weight", "evidence", "created_at", "expires_at"}
_PLAIN = GraphEdge.model_fields["provenance"].default
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Row = tuple[object, ...]


def micros(moment: datetime) -> int:
    """Since 1970; a time without a zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _micros_or(moment: datetime | None, nothing: Any) -> Any:
    return nothing if moment is None else micros(moment)


def _moment(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + value * _MICROSECOND


# --- writing

# When an item was (at, finish), and by what else it is asked for.
_Facts = tuple[int, int | None, str | None]


def _span(item: Any, facet: str | None = None) -> _Facts:
    return _micros_or(item.t_abs_start, NEVER), _micros_or(item.t_abs_end, None), facet


def _begin(item: Any) -> _Facts:
    return _micros_or(item.t_abs_start, NEVER), None, None


_FACTS: dict[ItemKind, Callable[[Any], _Facts]] = {
    "segment": _span,
    "utterance": _begin,
    "event": _span,
    "time_slice": lambda item: _span(item, item.slice_kind),
    "state": lambda item: (micros(item.valid_from), _micros_or(item.valid_to, FOREVER), item.property),
    "knowledge": _begin,
}
_TIMELESS: _Facts = (NEVER, None, None)
_ABOUT: dict[ItemKind, str] = {"evidence": "utterance_id", "event": "actor_id", "state": "subject_id"}


_SUBJECTS = {kind: attrgetter(name) for kind, name in _ABOUT.items()}


def subject_of(item: GraphItem) -> str | None:
    """Whom or what it is about, if it says so."""
    subject = _SUBJECTS.get(item.kind)
    return subject(item) or None if subject else None


def item_row(item: GraphItem, speech: int, audience: Audience, numbers: Mapping[str, int]) -> tuple[str, Row]:
    """The statement, and what it is given."""
    facts = _FACTS.get(item.kind)
    at, finish, facet = facts(item) if facts else _TIMELESS
    subject = subject_of(item)
    key = (
        speech,
        numbers[item.id],
        item.id,
        audience.id,
        audience.closeness,
        item.kind,
        at,
        _micros_or(item.updated_at or item.created_at, 0),
        _serialised(item, _ITEM_COLUMNS),
    )
    if finish is None and facet is None and item.published and item.expires_at is None:
        return (_PUT_ABOUT, (*key, numbers[subject])) if subject else (_PUT_ITEM, key)
    about = numbers[subject] if subject else None
    return _PUT_WHOLE_ITEM, (*key, about, finish, facet, item.published, _micros_or(item.expires_at, None))


def edge_row(edge: GraphEdge, speech: int, audience: Audience, numbers: Mapping[str, int]) -> tuple[str, Row]:
    """The statement, and what it is given."""
    bare = (
        (edge.provenance is _PLAIN or edge.provenance == _PLAIN)
        and not edge.ttl
        and edge.importance is None
        and edge.forgetting_policy is None
        and edge.updated_at is None
    )
    evidence = _pointers(edge) if edge.evidence else None
    key = (speech, numbers[edge.src_id], edge.rel_type, numbers[edge.dst_id], audience.id, evidence)
    if bare and edge.weight == 1.0 and edge.published and edge.created_at is None and edge.expires_at is None:
        return _PUT_EDGE, key
    return _PUT_WHOLE_EDGE, (
        *key,
        edge.weight,
        _micros_or(edge.created_at, None),
        edge.published,
        _micros_or(edge.expires_at, None),
        None if bare else _serialised(edge, _EDGE_COLUMNS),
    )


def _pointers(edge: GraphEdge) -> str:
    """Most words an edge rests on stand in one of its ends, which need not be named again."""
    if len(edge.evidence) > 1:
        return f"[{','.join(_pointer(edge, pointer) for pointer in edge.evidence)}]"
    return f"[{_pointer(edge, edge.evidence[0])}]"


def _pointer(edge: GraphEdge, pointer: Pointer) -> str:
    words = pointer.utterance_id
    at: int | str = 0 if words == edge.src_id else 1 if words == edge.dst_id else _to_json(words)
    return f"[{at},{pointer.span_start},{pointer.span_end}]"


def _serialised(given: GraphItem | GraphEdge, elsewhere: set[str]) -> str:
    try:
        return given.__pydantic_serializer__.to_json(
            given, exclude=elsewhere, exclude_defaults=True, by_alias=True
        ).decode()
    except (PydanticSerializationError, UnicodeError) as error:
        raise InvalidArgument(f"{called(given)!a} cannot be stored: {str(error)!a}", field="batch") from None


# --- reading


def merged(tenant: str, rows: Sequence[tuple[Any, ...]]) -> GraphItem:
    """What several origins say of one item, the newest of the closest audience last: it says what the item is like. An
    entity keeps its first name and has every other; what one of them keeps for ever, stays for ever."""
    to, kind = rows[-1][1:3]
    told = [_item(tenant, row) for row in rows if row[1:3] == (to, kind)]
    newest = told[-1]
    if len(told) == 1:
        return newest
    ends = [item.expires_at for item in told]
    update: dict[str, Any] = {
        "published": any(item.published for item in told),
        "expires_at": None if None in ends else max(cast(list[datetime], ends)),
        "created_at": min((item.created_at for item in told if item.created_at), default=None),
    }
    if isinstance(newest, Entity):
        entities = cast(list[Entity], told)
        names = dict.fromkeys(name for entity in entities for name in (entity.name, *entity.aliases))
        first = entities[0].name
        update |= {"name": first, "aliases": tuple(name for name in names if name != first)}
    return newest.model_copy(update=update)


def _item(tenant: str, row: tuple[Any, ...]) -> GraphItem:
    id_, _, kind, principals, domain, published, body = row
    try:
        data = json.loads(body)
        data |= {
            "id": id_,
            "tenant_id": tenant,
            "user_id": json.loads(principals),
            "memory_domain": domain,
            "published": bool(published),
        }
        return ITEM_TYPES[kind].model_validate(data)
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(id_, error) from error


def merged_edge(tenant: str, rows: Iterable[tuple[Any, ...]]) -> GraphEdge:
    """What several origins say of one edge: the newest its weight, and each the words it rests on."""
    told = [_edge(tenant, row) for row in rows]
    if len(told) == 1:
        return told[0]
    evidence = tuple(dict.fromkeys(pointer for edge in told for pointer in edge.evidence))
    return told[-1].model_copy(update={"evidence": evidence, "published": any(edge.published for edge in told)})


def _edge(tenant: str, row: tuple[Any, ...]) -> GraphEdge:
    src, rel, dst, _, principals, domain, weight, learnt, published, expires, evidence, body = row
    ends = (src, dst)
    try:
        pointers = [
            {"utterance_id": ends[at] if isinstance(at, int) else at, "span_start": start, "span_end": end}
            for at, start, end in (json.loads(evidence) if evidence else ())
        ]
        return GraphEdge(
            **(json.loads(body) if body else {}),
            src_id=src,
            rel_type=rel,
            dst_id=dst,
            tenant_id=tenant,
            user_id=tuple(json.loads(principals)),
            memory_domain=domain,
            weight=weight,
            published=bool(published),
            created_at=_moment(learnt),
            expires_at=_moment(expires),
            evidence=tuple(Pointer(**pointer) for pointer in pointers),
        )
    except (ValidationError, ValueError, IndexError, TypeError) as error:
        raise _unreadable(f"{src} {rel} {dst}", error) from error


def _unreadable(which: str, error: Exception) -> Corrupt:
    return Corrupt(f"{which} cannot be read: {error}; delete the graph's file and run `mnemon rebuild`", where=which)
