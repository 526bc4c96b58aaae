"""Examples for the ports' operations: what an argument of each name looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
_JOB = {
    "job_id": "digest-1",
    "kind": "digest",
    "tenant_id": "acme",
    "payload": {"owner_kind": "users", "owner_id": "ann", "session_id": "s1"},
}
_BY_NAME: dict[str, Any] = {
    "after": 0,
    "bodies": [{"op": "note"}],
    "claims": [],
    "data": "aGVsbG8=",
    "edges": [],
    "error": "the model did not answer",
    "expect": 0,
    "gone": [],
    "include_content": True,
    "job": _JOB,
    "job_id": "digest-1",
    "key": _KEY,
    "lease": "PT5M",
    "level": "abstract",
    "limit": 100,
    "log": "ledger",
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
_ANSWERS: dict[str, Any] = {"read_session": _RECORD, "write_session": _RECORD, "take": True, "index_session": 1}


def example_of(operation: str, takes: Sequence[str] | None = None) -> Any:
    """Of what it answers, or with `takes` of what it is given."""
    if takes is None:
        return _ANSWERS.get(operation)
    given = {name: _BY_NAME[name] for name in takes if name in _BY_NAME}
    if "key" in given and any(word in operation for word in _ABOUT_NODES):
        given["key"] = _NODE
    if "record" in given and operation == "write_commit":
        given["record"] = {"number": 1, "first_seq": 1, "last_seq": 1, "head": "", "at": "2026-01-31T08:00:00Z"}
    return given
