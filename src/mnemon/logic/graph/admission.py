"""What a graph takes: the same checks for every driver and every way in, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from mnemon.contracts.errors import InvalidArgument, PermissionDenied
from mnemon.contracts.graph import GraphBatch, GraphEdge, GraphItem, RelType, Saying, UtteranceEvidence
from mnemon.contracts.scope import Scope

_REL_TYPES = get_args(RelType)


def check_sayings(scope: Scope, sayings: Sequence[Saying]) -> None:
    """Refuse everything when one item or edge is outside the scope, and say which."""
    allowed: set[tuple[str, tuple[str, ...]]] = set()
    for saying in sayings:
        for given in given_in(saying.batch):
            whose = (given.tenant_id, given.user_id)
            if whose not in allowed:
                _check_scope(scope, given)
                allowed.add(whose)


def check_upsert(scope: Scope, batch: GraphBatch) -> None:
    """Of what comes from outside, everything says for whom and in which domain, and all of it the same."""
    first: GraphItem | GraphEdge | None = None
    for given in given_in(batch):
        if not given.user_id or not given.memory_domain:
            missing = "memory_domain" if given.user_id else "user_id"
            raise _refused("graph_scope_missing", f"{called(given)} has no {missing}", given)
        first = first or given
        if set(given.user_id) != set(first.user_id) or given.memory_domain != first.memory_domain:
            why = f"{called(given)} is not for the same people and domain as {called(first)}"
            raise _refused("graph_scope_mismatch", why, given)
    if first is not None:
        check_sayings(scope, [Saying("", batch)])
    for edge in batch.edges:
        if edge.rel_type not in _REL_TYPES:
            known = ", ".join(_REL_TYPES)
            raise _refused("graph_rel_type", f"{called(edge)}: rel_type must be one of {known}", edge)
    for equiv in batch.pending_equivs:
        if equiv.status != "pending":
            raise _refused("graph_equiv_decided", f"{called(equiv)}: approve or reject it instead", equiv)


def cited(batch: GraphBatch) -> list[str]:
    """The utterances that evidence and edges point at."""
    pointed = [pointer.utterance_id for edge in batch.edges for pointer in edge.evidence]
    return list(dict.fromkeys([*(evidence.utterance_id for evidence in batch.evidences), *pointed]))


def check_evidence(batch: GraphBatch, stored: Mapping[str, UtteranceEvidence]) -> None:
    """Every quote stands where it says, in an utterance given here or `stored` before; and words that are stored are
    never given anew in another form."""
    for utterance in batch.utterances:
        there = stored.get(utterance.id)
        if there is None or set(there.user_id) != set(utterance.user_id):
            continue
        if there.raw_text != utterance.raw_text:
            why = f"{called(utterance)} is stored with other words; words are never rewritten"
            raise _refused("graph_words_differ", why, utterance)
    texts = {id_: u.raw_text for id_, u in stored.items()} | {u.id: u.raw_text for u in batch.utterances}
    for evidence in batch.evidences:
        _check_span(evidence, evidence.utterance_id, evidence.span_start, evidence.span_end, texts)
        if texts[evidence.utterance_id][evidence.span_start : evidence.span_end] != evidence.text:
            why = f"{called(evidence)}: its text does not stand there in {evidence.utterance_id}"
            raise _refused("graph_evidence_mismatch", why, evidence)
    for edge in batch.edges:
        for pointer in edge.evidence:
            _check_span(edge, pointer.utterance_id, pointer.span_start, pointer.span_end, texts)


def _check_span(
    given: GraphItem | GraphEdge, utterance_id: str, start: int, end: int, texts: Mapping[str, str]
) -> None:
    if utterance_id not in texts:
        why = f"{called(given)} points at utterance {utterance_id}, which is neither given nor stored"
        raise _refused("graph_evidence_missing", why, given)
    if not start < end <= len(texts[utterance_id]):
        why = f"{called(given)}: [{start}:{end}] is not within utterance {utterance_id}"
        raise _refused("graph_evidence_mismatch", why, given)


def _check_scope(scope: Scope, given: GraphItem | GraphEdge) -> None:
    if given.tenant_id not in ("", scope.tenant_id):
        raise PermissionDenied(f"{called(given)} is of tenant {given.tenant_id}, outside this scope")
    if not given.user_id or not scope.sees(given.user_id):
        raise PermissionDenied(f"{called(given)} is for {sorted(given.user_id)}, outside this scope")


def _refused(reason: str, why: str, given: GraphItem | GraphEdge) -> InvalidArgument:
    return InvalidArgument(why, reason=reason, item=called(given), field="batch")


def given_in(batch: GraphBatch) -> Iterator[GraphItem | GraphEdge]:
    yield from batch.items()
    yield from batch.edges


def called(given: GraphItem | GraphEdge) -> str:
    """How an item or an edge is named to people."""
    if isinstance(given, GraphItem):
        return f"{given.kind} {given.id}"
    return f"edge {given.src_id} {given.rel_type} {given.dst_id}"
