"""What the archive holds as entries of an index: turns, claims, nodes in chunks, profiles as a whole, and the marker
that says how far a session is indexed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.entries import EmbeddingVector, Entry
from mnemon.contracts.nodes import Node, Shelf
from mnemon.contracts.sessions import KeptRule, SessionRecord, StoredTurn
from mnemon.contracts.tags import Tagging
from mnemon.contracts.turns import epoch_ms
from mnemon.logic.chats import is_call_id
from mnemon.logic.chunking import ChunkRecord, by_hand
from mnemon.logic.front_matter import split
from mnemon.logic.ids import marker_id, stable_id, turn_id
from mnemon.logic.portraits import overview_of
from mnemon.logic.rules.tools import STEP
from mnemon.logic.tagging import kept_turns

TURN = "turn"
CLAIM = "claim"
CHUNK = "chunk"
PROFILE = "profile"
MARKER = "session_marker"
SOURCE = "locomo_text_pipeline"
MARKER_SOURCE = "dialog_session_marker"
BY_HAND = "by_hand"
_RULES = "rules"  # the provider that goes by patterns
# Claims in these states are in the index, and not shown.
HIDDEN = (ClaimState.PENDING, ClaimState.REPEATED, ClaimState.EXPIRED)


@dataclass(frozen=True, slots=True)
class Lives:
    """Which turns of a session are remembered. What nobody has judged is, once the session is complete. The words
    themselves have no end."""

    rule: KeptRule = "all"
    kept: frozenset[str] = frozenset()
    judged: tuple[tuple[int, int], ...] = ()
    ruled: tuple[tuple[int, int], ...] = ()

    def drops(self, stored: StoredTurn) -> bool:
        """Has somebody who understands it judged that it is not worth keeping? The rules know what they have a pattern
        for, and their silence judges nothing."""
        return not self.keeps(stored) and not any(a <= stored.seq <= b for a, b in self.ruled)

    def keeps(self, stored: StoredTurn) -> bool:
        if self.rule == "said":
            return not is_call_id(stored.turn.turn_id)
        if self.rule != "tagged":
            return self.rule == "all"
        return stored.turn.turn_id in self.kept or not any(a <= stored.seq <= b for a, b in self.judged)


def lives(record: SessionRecord, taggings: Sequence[Tagging]) -> Lives:
    if record.kept != "tagged":
        return Lives(record.kept)
    # What an earlier version could not judge counts as not judged at all.
    whole = [t for t in taggings if not t.ttl_seconds]
    kept = frozenset[str]().union(*(kept_turns(t.output) for t in whole))
    judged = tuple((t.first_seq, t.last_seq) for t in whole)
    ruled = tuple((t.first_seq, t.last_seq) for t in whole if t.provider == _RULES)
    return Lives("tagged", kept, judged, ruled)


def is_new(record: SessionRecord, fresh: Sequence[StoredTurn]) -> bool:
    """Are these a session's first words? Then no replica can have heard of it."""
    return record.version == 1 and bool(fresh) and fresh[0].seq == 1


def turn_entries(
    record: SessionRecord,
    turns: Sequence[StoredTurn],
    vectors: Sequence[EmbeddingVector] | None,
    lives: Lives,
    published: bool = True,
) -> list[Entry]:
    """Without `vectors` they are found by their words alone."""
    key = record.key
    same = {
        "uri": key.uri,
        "session_id": key.session_id,
        "domain": "dialog",
        "source": SOURCE,
        "modality": "text",
        "published": published,
    }
    return [
        Entry(
            id=turn_id(key, stored.turn.turn_id),
            principals=record.principals,
            text=stored.turn.text,
            kind=TURN,
            fields={
                **same,
                "kept": not lives.drops(stored),
                "seq": stored.seq,
                "ts": stored.ts_ms,
                "role": str(stored.turn.role),
                "speaker": stored.turn.speaker,
                "turn_id": stored.turn.turn_id,
            },
            metadata=_metadata(stored),
            vector=vectors[n].dense_vector if vectors is not None else None,
        )
        for n, stored in enumerate(turns)
    ]


@lru_cache(maxsize=256)
def _iso(moment: datetime) -> str:
    return moment.isoformat()  # turns archived together share their moment


def _metadata(stored: StoredTurn) -> dict[str, Any]:
    turn = stored.turn
    metadata: dict[str, Any] = {"archived_at": _iso(stored.archived_at), "timestamp_iso": turn.timestamp_iso}
    if turn.attachments:
        metadata["attachments"] = [a.model_dump(mode="json", exclude_defaults=True) for a in turn.attachments]
    return metadata


def claim_entries(
    claims: Sequence[Claim], vectors: Sequence[EmbeddingVector], unseen: Collection[str] = ()
) -> list[Entry]:
    """A claim's entry carries the whole claim, its quotes included: whoever finds it can prove it without a further
    call. One that waits for confirmation is not published, nor are those `unseen` for the moment."""
    return [
        Entry(
            id=claim.claim_id,
            principals=claim.principals,
            text=claim.statement,
            kind=CLAIM,
            fields={
                "uri": claim.session.uri,
                "session_id": claim.session_id,
                "domain": "dialog",
                "source": SOURCE,
                "modality": "text",
                "published": claim.state not in HIDDEN and claim.claim_id not in unseen,
                "kept": True,
                "ts": epoch_ms(claim.valid_from),
                "shelf": claim.shelf.value,
                "fact_type": claim.kind.value,
                "status": claim.status.value,
                "state": claim.state.value,
                "node": claim.node_uri or None,
                "importance": claim.governance.importance,
                "expires_at": epoch_ms(claim.expires_at) if claim.expires_at else None,
                "entities": list(claim.entities),
                "tags": [*_chat_tags(claim), *steps_tags(claim)],
            },
            metadata={"claim": _whole(claim)},
            vector=vector.dense_vector,
        )
        for claim, vector in zip(claims, vectors, strict=True)
    ]


def _chat_tags(claim: Claim) -> list[str]:
    """What happened in a chat can be asked for by whom it was with and where."""
    at = claim.occasion
    if at is None:
        return []
    named = [user_tag(at.user_id), user_tag(at.sender_id), group_tag(at.group_id) if at.group_id else ""]
    return list(dict.fromkeys(filter(None, named)))


def steps_tags(claim: Claim) -> list[str]:
    """Cases of the same steps have the same tag."""
    if claim.shelf is not Shelf.CASES or STEP not in claim.title:
        return []
    return [f"steps:{stable_id('steps', claim.title)[:13]}"]


def user_tag(user_id: str) -> str:
    return f"user:{user_id}"


def group_tag(group_id: str) -> str:
    return f"group:{group_id}"


def _whole(claim: Claim) -> dict[str, Any]:
    """With every word of its governance, also where it is the usual one."""
    told = claim.model_dump(mode="json", exclude_defaults=True)
    return {**told, "governance": claim.governance.model_dump(mode="json")}


def claim_of(entry: Entry) -> Claim:
    return Claim.model_validate(entry.metadata["claim"])


def chunk_entries(node: Node, chunks: Sequence[ChunkRecord], vectors: Sequence[EmbeddingVector]) -> list[Entry]:
    ttl, written = _expiry(node), {*by_hand(node)}
    return [
        Entry(
            id=chunk.chunk_id,
            principals=node.principals,
            text=chunk.text_content,
            kind=CHUNK,
            fields={
                "uri": chunk.uri,
                "node": chunk.uri,
                "shelf": node.key.shelf.value,
                "level": chunk.level,
                "source": BY_HAND if chunk.text_content in written else None,
                "seq": chunk.chunk_index,
                "domain": "dialog",
                "modality": "text",
                "published": True,
                "ts": epoch_ms(node.updated_at) if node.updated_at else 0,
                "expires_at": ttl,
            },
            metadata={"version": node.version},
            vector=vector.dense_vector,
        )
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


def is_profile(node: Node) -> bool:
    """One with a head: those of an older version get it when they are next written."""
    return node.key.shelf is Shelf.PROFILE and "entity_id" in split(node.content)[0]


def profile_text(node: Node) -> str:
    """What of a profile is searched: its lines without their proof."""
    return f"{split(node.content)[0]['name']}\n{overview_of(node)}"


def profile_entry(node: Node, vector: EmbeddingVector) -> Entry:
    """The whole profile as one entry, beside its chunks."""
    head, _ = split(node.content)
    entity = f"{head['entity_type']}:{head['entity_id']}"
    return Entry(
        id=profile_id(node.key.uri),
        principals=node.principals,
        text=profile_text(node),
        kind=PROFILE,
        fields={
            "uri": node.key.uri,
            "node": node.key.uri,
            "shelf": node.key.shelf.value,
            "domain": "dialog",
            "modality": "text",
            "published": True,
            "ts": epoch_ms(node.updated_at) if node.updated_at else 0,
            "tags": [entity, str(head["entity_type"])],
            "expires_at": _expiry(node),
        },
        metadata={
            "id": entity,
            **{name: head.get(name) for name in ("entity_type", "entity_id", "name", "updated_at", "tags")},
            "version": node.version,
        },
        vector=vector.dense_vector,
    )


def profile_id(uri: str) -> str:
    return stable_id("profile", uri)


def _expiry(node: Node) -> int | None:
    """A node whose every claim ends is over when the last of them is; one that is over in part is rendered anew by
    the sweep."""
    ends = [row.get("expires_at") for row in node.metadata.get("claims", [])]
    if not ends or not all(ends):
        return None
    return max(epoch_ms(datetime.fromisoformat(end)) for end in ends)


@dataclass(frozen=True, slots=True)
class Marker:
    """Which version of a session's page the index holds, and of it: up to which turn, which commit, which claims. Of a
    session that is not complete the words alone are there, up to turn `words`."""

    version: int = 0
    seq: int = 0
    head: str = ""
    commits: int = 0
    kept: str = ""
    claim_ids: tuple[str, ...] = ()
    words: int = 0

    @classmethod
    def at(cls, record: SessionRecord, seq: int, head: str) -> Marker:
        return cls(record.version, seq, head, record.commits, record.kept, record.claim_ids)

    @classmethod
    def of(cls, entry: Entry) -> Marker:
        held = {f.name: entry.metadata[f.name] for f in fields(cls) if f.name in entry.metadata}
        return cls(**{**held, "seq": int(entry.fields["seq"]), "claim_ids": tuple(held.get("claim_ids", ()))})


def added_claims(version: int, known: Sequence[str], record: SessionRecord) -> tuple[str, ...] | None:
    """Claims a page has that an earlier version of it had not, where nothing but adding them can have happened in
    between; None where more may have changed. Whoever changes a claim turns the page once more for it."""
    before = tuple(known)
    one_step = version + 1 == record.version and len(before) < len(record.claim_ids)
    return record.claim_ids[len(before) :] if one_step and record.claim_ids[: len(before)] == before else None


def marker_entry(record: SessionRecord, marker: Marker) -> Entry:
    """How a session stands, and how far the index is with it. Found by its id, never by similarity: it has no
    vector."""
    return Entry(
        id=marker_id(record.key),
        principals=record.principals,
        text=f"session_marker {record.session_id}",
        kind=MARKER,
        fields={
            "uri": record.key.uri,
            "session_id": record.session_id,
            "domain": "dialog",
            "source": MARKER_SOURCE,
            "modality": "text",
            "seq": marker.seq,
            "status": record.status.value,
        },
        metadata={"node_type": MARKER, **{k: v for k, v in asdict(marker).items() if k != "seq"}},
    )
