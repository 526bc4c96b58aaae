"""From points that passed the gates to a view: what a model chose, in the words of the program."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.contracts.claims import Language
from mnemon.contracts.recall import Evidence, Item, MemoryView, Reason
from mnemon.contracts.turns import Role
from mnemon.logic.recall.tables import load
from mnemon.pipelines.recall.gates import Final, Gate, Held, Point

_UNSURE = 0.5
_TELLING = load("telling")


def viewed(final: Final, gate: Gate, language: Language) -> tuple[MemoryView, tuple[Evidence, ...]]:
    """The view, and every quote it rests on once."""
    proofs: dict[tuple[str, int, int], Evidence] = {}
    shelves: dict[str, list[Item]] = {}
    for point in final.items:
        proof, against = gate.all_held(point.evidence), gate.all_held(point.against)
        for side, quotes in (("for", proof), ("against", against)):
            for held in quotes:
                place = (held.message.message_id, held.start, held.end)
                proofs.setdefault(place, _evidence(held, _TELLING["evidence"][language][side], gate))
        shelves.setdefault(point.shelf, []).append(_item(point, proof, against, language))
    view = MemoryView(**{shelf: tuple(items) for shelf, items in shelves.items()})
    return view, tuple(proofs.values())


def _item(point: Point, proof: list[Held], against: list[Held], language: Language) -> Item:
    reason = point.reason if against or point.status == "changed" else ""
    return Item(
        statement=point.statement,
        status=point.status,
        confidence=min(point.confidence, _UNSURE) if point.status == "uncertain" else point.confidence,
        evidence=_ids(proof),
        against=_ids(against),
        reason=reason,
        note=_note(reason, bool(against), language),
        since=min(held.message.ts for held in proof),
    )


def _ids(quotes: list[Held]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(held.message.message_id for held in quotes))


def _evidence(held: Held, why: str, gate: Gate) -> Evidence:
    message = held.message
    return Evidence(
        message_id=message.message_id,
        session_id=message.session_id,
        ts=message.ts,
        role=Role(message.role),
        speaker=message.speaker,
        content=held.words,
        start=held.start,
        end=held.end,
        why=why,
        neighbors=tuple(dict.fromkeys(gate.looking.around.get(message.message_id, ()))),
    )


def _note(reason: Reason, contested: bool, language: Language) -> str:
    if not reason:
        return ""
    notes = _TELLING["note"][language]
    said = str(notes["unclear_both" if reason == "unclear" and contested else reason])
    return said.partition("{}")[0].rstrip("：: ")


def told_answer(view: MemoryView, evidence: Sequence[Evidence], language: Language) -> str:
    """In the frame the rules use; between it there is nothing but quotes, or points that passed the gates."""
    words = _TELLING["answer"][language]
    quotes = {quote.message_id: quote for quote in reversed(evidence)}
    items = view.items()
    if len(items) != 1:
        lines = [words["line"].format(statement=i.statement, day=quotes[i.evidence[0]].ts[:10]) for i in items]
        return "\n".join([words["many"], *lines])
    (item,) = items
    lead, before = quotes[item.evidence[0]], quotes[item.against[0]].content if item.against else ""
    if item.status == "settled":
        form = "assistant" if lead.role is Role.ASSISTANT else "one"
    else:
        form = item.status if before else f"{item.status}_alone"
    quoted = lead.content if form == "uncertain" else f"“{lead.content}”"
    told = str(words[form]).format(prefix="", words=quoted, day=lead.ts[:10], before=before)
    return told[:1].upper() + told[1:]
