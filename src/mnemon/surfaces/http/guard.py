"""What a caller may do at the ports: with a scope no wider than the credentials, in no folders but their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.errors import InvalidArgument, PermissionDenied
from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.nodes import Node, NodeKey
from mnemon.contracts.scope import PUBLIC, Owner, OwnerKind, Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.engine.addressing import DEFAULT_AGENT
from mnemon.pipelines.jobs import digest_job, session_of
from mnemon.surfaces.http.identity import Caller

# What a person's own program needs to write a session and its memories. All else is for a service.
FOR_PERSONS = frozenset(
    {
        "append_edges",
        "append_turns",
        "delete_node",
        "drop_session",
        "exists",
        "get_edges",
        "keep_turns",
        "incoming_edges",
        "list_children",
        "put_blob",
        "put_claims",
        "read_claims",
        "read_commits",
        "read_node",
        "read_session",
        "read_tags",
        "read_tombstones",
        "read_turns",
        "remove_edges",
        "revisions",
        "sessions",
        "stat_node",
        "upsert_edges",
        "write_commit",
        "write_node",
        "write_session",
        "write_tags",
    }
)


def check_call(caller: Caller, operation: str, arguments: Iterable[Any]) -> None:
    """Refuse what reaches beyond the credentials, whichever argument it hides in."""
    if operation not in FOR_PERSONS:
        caller.needs_service(operation)
    given = list(arguments)
    # With a scope, what is of another tenant is simply not there; the archive sees to that.
    scoped = any(isinstance(value, Scope) for value in given)
    for value in given:
        _check(caller, value, caller.tenant_id if scoped else None)


def _check(caller: Caller, value: Any, tenant: str | None) -> None:
    match value:
        case Scope():
            check_scope(caller, value)
        case SessionKey() | NodeKey():
            check_place(caller, tenant or value.tenant_id, value.owner)
        case SessionRecord() | Claim():
            check_place(caller, tenant or value.tenant_id, Owner(value.owner_kind, value.owner_id))
            _check_audience(caller, value.principals)
        case Node():
            check_place(caller, tenant or value.key.tenant_id, value.key.owner)
            _check_image(caller, value.principals, value.metadata, tenant)
        case CommitRecord():
            # Whoever finishes a commit does what its record says, and may be the service itself.
            _check(caller, value.others, tenant)
            for after in (change.after for change in value.changes if change.after):
                _check_image(caller, after.principals, after.metadata, tenant)
        case Owner():
            check_place(caller, caller.tenant_id, value)
        case Job():
            check_job(caller, value)
        case list() | tuple():
            for item in value:
                _check(caller, item, tenant)


def check_scope(caller: Caller, scope: Scope) -> None:
    if scope.tenant_id != caller.tenant_id:
        raise PermissionDenied("scope names another tenant", field="scope.tenant_id", reason="tenant")
    if scope.steward:
        caller.needs_service("a steward's scope")
    if not caller.is_service and not scope.principals <= _held(caller):
        raise PermissionDenied(
            "scope names whom this token does not hold", field="scope.principals", reason="principal"
        )


def check_place(caller: Caller, tenant_id: str, owner: Owner) -> None:
    if tenant_id != caller.tenant_id:
        raise PermissionDenied("this is of another tenant", field="tenant_id", reason="tenant")
    if not caller.is_service and owner.principal not in _held(caller):
        raise PermissionDenied("this is somebody else's", field="owner", reason="principal")


def check_job(caller: Caller, job: Job) -> None:
    """A session is held by its digest job; no other job is anybody's but the service's own. The name of a job follows
    from its session: who holds their own cannot take somebody else's by its name."""
    kind, *named = (job.payload.get(name) for name in ("owner_kind", "owner_id", "session_id"))
    if job.kind is not JobKind.DIGEST or kind not in list(OwnerKind) or not all(isinstance(n, str) for n in named):
        raise InvalidArgument("only the digest job of a session can be held", field="job", reason="kind")
    key = session_of(job)
    check_place(caller, job.tenant_id, key.owner)
    if (job.job_id, job.lane) != (digest_job(key, {}).job_id, ""):
        raise InvalidArgument("this is not the job of that session", field="job.job_id", reason="job")


def _check_audience(caller: Caller, principals: Iterable[str]) -> None:
    """Nobody puts anything before somebody else."""
    if not caller.is_service and not _held(caller).issuperset(principals):
        raise PermissionDenied("this is for whom this token does not hold", field="principals", reason="principal")


def _check_image(caller: Caller, principals: Iterable[str], metadata: dict[str, Any], tenant: str | None) -> None:
    """A node carries its claims; when it changes, their sessions are told."""
    _check_audience(caller, principals)
    try:
        claims = [Claim.model_validate(row) for row in metadata.get("claims", [])]
    except (TypeError, ValidationError):
        raise InvalidArgument("metadata.claims must be claims", field="metadata.claims", reason="claims") from None
    _check(caller, claims, tenant)


def _held(caller: Caller) -> frozenset[str]:
    token = caller.token
    assert token is not None
    held = {PUBLIC, f"u:{token.user_id}", *(f"g:{g}" for g in token.groups), *(f"a:{a}" for a in token.agents)}
    if token.product_id is not None:
        held.add(f"p:{token.product_id}")
    return frozenset({*held, f"a:{DEFAULT_AGENT}"})
