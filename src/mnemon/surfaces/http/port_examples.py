"""Examples for the ports' operations: what an argument of each name, and an answer of each type, looks like."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from mnemon.contracts.scope import Owner, SessionKey
from mnemon.pipelines.jobs import digest_job

_KEY = {"tenant_id": "acme", "owner": {"kind": "users", "id": "ann"}, "session_id": "s1"}
_NODE = {"tenant_id": "acme", "owner": {"kind": "users", "id": "ann"}, "shelf": "preferences", "slug": "tea"}
_RECORD = {
    "tenant_id": "acme",
    "owner_kind": "users",
    "owner_id": "ann",
    "session_id": "s1",
    "principals": ["u:ann"],
    "created_at": "2026-01-31T08:00:00Z",
    "updated_at": "2026-01-31T08:00:00Z",
}
_HELD = digest_job(SessionKey("acme", Owner.user("ann"), "s1"), {})
_JOB = {"job_id": _HELD.job_id, "kind": _HELD.kind.value, "tenant_id": "acme", "payload": _HELD.payload}
_CASE = {
    "claim_id": "6c1d",
    "tenant_id": "acme",
    "owner_kind": "users",
    "owner_id": "ann",
    "session_id": "s1",
    "principals": ["u:ann", "a:default"],
    "kind": "fact",
    "shelf": "cases",
    "routing_key": "build",
    "statement": "make → cc: the build passed",
    "title": "make → cc",
    "confidence": 1.0,
    "language": "en",
    "spans": [{"turn_id": "t1", "start": 0, "end": 16, "text_exact": "the build passed"}],
    "governance": {},
    "valid_from": "2026-01-31T08:00:00Z",
    "recorded_at": "2026-01-31T08:00:00Z",
}
_BY_NAME: dict[str, Any] = {
    "after": 0,
    "bodies": [{"op": "note"}],
    "case": _CASE,
    "claims": [],
    "data": "aGVsbG8=",
    "edges": [],
    "error": "the model did not answer",
    "expect": 0,
    "gone": [],
    "include_content": True,
    "job": _JOB,
    "job_id": _HELD.job_id,
    "key": _KEY,
    "lease": "PT5M",
    "level": "abstract",
    "limit": 100,
    "log": "ledger",
    "masks": {"t1": [[2, 7]]},
    "metadata": {},
    "node": {"key": _NODE, "principals": ["u:ann"], "abstract": "Ann drinks tea."},
    "owner": {"kind": "users", "id": "ann"},
    "reason": "asked for",
    "record": _RECORD,
    "recursive": False,
    "retryable": True,
    "scope": {"tenant_id": "acme", "principals": ["u:ann", "pub"]},
    "seqs": [1],
    "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    "shelf": "preferences",
    "taggings": [],
    "text": "Ann drinks tea.",
    "to": {**_NODE, "slug": "green-tea"},
    "turn_ids": ["t1"],
    "turns": [{"turn_id": "t1", "role": "user", "text": "I drink tea."}],
    "version": 1,
    "worker": "client-1",
}
_ABOUT_NODES = ("node", "edges", "exists", "revisions", "level", "metadata", "path")
_WORDS = {"appended": [], "already_there": 0, "turn_count": 1, "chain_head": "9f2c"}
_BY_TYPE: dict[str, Any] = {
    "AppendResult": _WORDS,
    "Job": _JOB,
    "Kept": {"record": _RECORD, "words": _WORDS},
    "LogLine": {"seq": 1, "at": "2026-01-31T08:00:00Z", "body": {"op": "note"}, "chain": "9f2c"},
    "Node": {"key": _NODE, "principals": ["u:ann"], "abstract": "Ann drinks tea.", "version": 1},
    "NodeStat": {"uri": "ctx://acme/users/ann/memories/preferences/tea", "exists": True, "version": 1, "size": 512},
    "Owner": {"kind": "users", "id": "ann"},
    "SessionRecord": _RECORD,
    "VerifyReport": {"tenants": 1, "sessions": 1, "turns": 1, "defects": []},
    "bool": True,
    "bytes": "aGVsbG8=",
    "dict": {"turns": 1},
    "int": 1,
    "str": "acme",
    "tuple": ["acme/users/ann/sessions/s1/session.json", "e30="],
}


def answer_example(kind: Any) -> Any:
    """An answer of this type; a list is shown with one of what it holds."""
    origin = get_origin(kind)
    if origin is list:
        return [answer_example(get_args(kind)[0])]
    if origin is UnionType:
        return answer_example(next(part for part in get_args(kind) if part is not NoneType))
    return _BY_TYPE.get((origin or kind).__name__)


def request_example(operation: str, takes: Sequence[str]) -> dict[str, Any]:
    given = {name: _BY_NAME[name] for name in takes if name in _BY_NAME}
    if "key" in given and any(word in operation for word in _ABOUT_NODES):
        given["key"] = _NODE
    if "record" in given and operation == "write_commit":
        given["record"] = {"number": 1, "first_seq": 1, "last_seq": 1, "head": "", "at": "2026-01-31T08:00:00Z"}
    return given
