"""What jobs say: which session, which node, what is to be done with it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from mnemon.contracts.jobs import Job, JobKind
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.logic.ids import stable_id


def digest_job(key: SessionKey, order: dict[str, Any]) -> Job:
    """One a session: whoever holds it has the session to himself."""
    job_id = f"digest-{stable_id('session', key.tenant_id, key.owner.space, key.session_id)}"
    return Job(job_id, JobKind.DIGEST, key.tenant_id, {**_session(key), "order": order})


def index_job(key: SessionKey) -> Job:
    """Bring one session's replica up to date. A new one each time: one under way may have read what was before."""
    return Job(f"index-{uuid.uuid4().hex}", JobKind.INDEX, key.tenant_id, _session(key))


def node_job(key: NodeKey, kind: JobKind = JobKind.INDEX) -> Job:
    """Bring one node's replica up to date."""
    return Job(f"{kind}-{uuid.uuid4().hex}", kind, key.tenant_id, about_node(key))


def about_node(key: NodeKey) -> dict[str, Any]:
    return {**_owner(key.owner), "shelf": key.shelf.value, "slug": key.slug}


def claims_job(key: SessionKey, nodes: Sequence[str], gone: Sequence[str] = ()) -> Job:
    """Finish what a person decided about claims of a session: their nodes are changed first, then the files."""
    payload = {**_session(key), "nodes": list(nodes), "gone": list(gone)}
    return Job(f"index-{uuid.uuid4().hex}", JobKind.INDEX, key.tenant_id, payload)


def is_about_claims(job: Job) -> bool:
    return "nodes" in job.payload


def catch_up_job() -> Job:
    """See what of the archive has not reached the replicas. A new one each time, as above."""
    return Job(f"catch-up-{uuid.uuid4().hex}", JobKind.CATCH_UP, "")


def is_about_a_node(job: Job) -> bool:
    return "slug" in job.payload


def trace_of(job: Job) -> str:
    """The caller's own name for the call that put it, as a log line ends with it."""
    trace = job.payload.get("order", {}).get("trace_id", "")
    return f" (trace_id {trace})" if trace else ""


def session_of(job: Job) -> SessionKey:
    return SessionKey(job.tenant_id, _owner_of(job), job.payload["session_id"])


def node_of(job: Job) -> NodeKey:
    return NodeKey(job.tenant_id, _owner_of(job), Shelf(job.payload["shelf"]), job.payload["slug"])


def _session(key: SessionKey) -> dict[str, Any]:
    return {**_owner(key.owner), "session_id": key.session_id}


def _owner(owner: Owner) -> dict[str, Any]:
    return {"owner_kind": owner.kind.value, "owner_id": owner.id}


def _owner_of(job: Job) -> Owner:
    return Owner(OwnerKind(job.payload["owner_kind"]), job.payload["owner_id"])
