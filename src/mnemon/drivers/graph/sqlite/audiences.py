"""Who sees what: each set of principals and its domain stored once, found by the most particular of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from mnemon.contracts.scope import Scope
from mnemon.logic.principals import closeness, handle

LISTED = "IN (SELECT value FROM json_each(?))"

Sql = tuple[str, list[object]]


class Audience(NamedTuple):
    id: int
    closeness: int


def listed(values: Iterable[object]) -> str:
    return json.dumps(list(values))


def visible(db: sqlite3.Connection, scope: Scope, domain: str = "") -> list[int]:
    """The audiences a scope belongs to: found by handle, kept when every principal is the caller's."""
    sql, values = "SELECT id, principals FROM audience WHERE tenant = ?", [scope.tenant_id]
    if not scope.steward:
        sql += f" AND handle {LISTED}"
        values.append(listed(sorted(scope.principals)))
    if domain:
        sql += " AND domain = ?"
        values.append(domain)
    return [id_ for id_, principals in db.execute(sql, values) if scope.sees(json.loads(principals))]


def within(db: sqlite3.Connection, scope: Scope, column: str) -> Sql:
    """Is the audience in this column one of the scope's? For who sees the whole tenant, without listing everybody."""
    if scope.steward and scope.match == "within":
        return f"(SELECT tenant FROM audience WHERE id = {column}) = ?", [scope.tenant_id]
    return f"{column} {LISTED}", [listed(visible(db, scope))]


def audience_of(db: sqlite3.Connection, tenant: str, principals: Iterable[str], domain: str) -> Audience:
    """The one for these, made where there is none."""
    those = sorted(set(principals))
    text = json.dumps(those, ensure_ascii=False)
    found = db.execute(
        "SELECT id FROM audience WHERE tenant = ? AND principals = ? AND domain = ?", (tenant, text, domain)
    ).fetchone()
    if found is None:
        made = "INSERT INTO audience (tenant, handle, principals, domain) VALUES (?, ?, ?, ?) RETURNING id"
        found = db.execute(made, (tenant, handle(those), text, domain)).fetchone()
    return Audience(found[0], closeness(those))
