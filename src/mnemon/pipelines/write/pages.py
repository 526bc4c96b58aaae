"""A session's page: made when it is new, and written on whoever else writes on it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mnemon.contracts.errors import VersionConflict
from mnemon.contracts.ports import Archive, Clock
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord


def new_record(
    key: SessionKey, principals: tuple[str, ...], clock: Clock, order: dict[str, Any] | None = None
) -> SessionRecord:
    now = clock.now()
    return SessionRecord(
        tenant_id=key.tenant_id,
        owner_kind=key.owner.kind,
        owner_id=key.owner.id,
        session_id=key.session_id,
        principals=principals,
        order=order,
        created_at=now,
        updated_at=now,
    )


async def open_page(
    archive: Archive,
    clock: Clock,
    scope: Scope,
    key: SessionKey,
    principals: tuple[str, ...],
    record: SessionRecord | None,
    order: dict[str, Any] | None = None,
) -> SessionRecord:
    """The session's page, made if it is new; two who make it at once share it. `order` is what is asked of it: whoever
    finds it unfinished, and no job for it, knows what to do."""
    if record is not None and set(record.principals) == set(principals):
        return record
    fresh = new_record(key, principals, clock, order)
    try:
        return await archive.write_session(scope, fresh, record.version if record else 0)
    except VersionConflict:
        there = await archive.read_session(scope, key)
        if there is None or set(there.principals) != set(principals):
            raise
        return there


async def turn_page(
    archive: Archive, scope: Scope, record: SessionRecord, update: Callable[[SessionRecord], dict[str, Any]]
) -> SessionRecord:
    """The page with this written in, whoever else has written on it meanwhile."""
    while True:
        page = record.model_copy(update=update(record))
        if page == record:
            return record
        if page.turn_count < record.turn_count:
            page = page.model_copy(update={"turn_count": record.turn_count, "chain_head": record.chain_head})
        try:
            return await archive.write_session(scope, page, record.version)
        except VersionConflict:
            newer = await archive.read_session(scope, record.key)
            if newer is None:
                raise
            record = newer
