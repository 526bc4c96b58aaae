"""What callers name, checked: where a session lies, who may see it, what is one of a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.scope import PUBLIC, Owner, Scope, SessionKey, checked_id
from mnemon.contracts.turns import InputFormat, Turn
from mnemon.pipelines.write.source import Raw

Visibility = Literal["private", "product", "public", "group"]
DEFAULT_AGENT = "default"


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidArgument(f"{name} must be one of {', '.join(known)}, not {value!r}", field=name)


def reader(tenant_id: str, user_id: str, product_id: str | None, group_id: str | None, agent_id: str | None) -> Scope:
    """The scope of somebody who asks, with the agent they speak to."""
    return Scope.of(tenant_id, user_id, product_id, group_id, agent_id or DEFAULT_AGENT)


def addressed(
    tenant_id: str,
    user_id: str,
    session_id: str,
    product_id: str | None,
    group_id: str | None,
    agent_id: str | None,
    visibility: str,
) -> tuple[SessionKey, tuple[str, ...], Scope]:
    """Where a session lies, who may see it, and the scope it is written in."""
    scope = reader(tenant_id, user_id, product_id, group_id, agent_id)
    checked_id("session_id", session_id)
    owner = Owner.user(user_id)
    match visibility:
        case "private":
            principals = [owner.principal] + ([f"p:{product_id}"] if product_id is not None else [])
        case "product":
            principals = [f"p:{_needed('product_id', product_id, visibility)}"]
        case "group":
            owner = Owner.group(_needed("group_id", group_id, visibility))
            principals = [owner.principal]
        case "public":
            principals = [PUBLIC]
        case _:
            one_of("visibility", visibility, get_args(Visibility))
            raise AssertionError
    return SessionKey(tenant_id, owner, session_id), tuple(sorted(principals)), scope


def traced(scope: Scope, trace_id: str | None) -> Scope:
    """The same scope under the caller's own name for this call."""
    return scope if trace_id is None else replace(scope, trace_id=checked_id("trace_id", trace_id))


def _needed(name: str, value: str | None, visibility: str) -> str:
    if value is None:
        raise InvalidArgument(f"visibility={visibility!r} needs {name}", field=name)
    return value


def source_of(
    turns: Sequence[Turn | Mapping[str, Any]] | None, raw: Raw | None, input_format: str | InputFormat | None
) -> tuple[Raw, str | InputFormat | None]:
    if (turns is None) == (raw is None):
        raise InvalidArgument("give either turns or raw", field="turns")
    if turns is None:
        assert raw is not None
        return raw, input_format
    if input_format not in (None, InputFormat.CANONICAL_TURNS):
        raise InvalidArgument(f"turns are canonical turns; pass {input_format} as raw", field="input_format")
    if isinstance(turns, str | bytes | Mapping):
        raise InvalidArgument("turns must be a list of turns; pass text or files as raw", field="turns")
    rows: list[Any] = [t.model_dump(mode="json", exclude_defaults=True) if isinstance(t, Turn) else t for t in turns]
    return rows, InputFormat.CANONICAL_TURNS
