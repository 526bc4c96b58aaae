"""The proof of law 1: what tags and claims quote, against the turns they point at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mnemon.contracts.claims import Claim
from mnemon.contracts.scope import SessionKey
from mnemon.contracts.sessions import EXPIRED
from mnemon.contracts.turns import Span, Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.layout import TURNS, Layout

_CHARACTERS_IN_MEMORY = 8 << 20


class Broken(NamedTuple):
    """A paper that says what the words do not."""

    path: Path
    kind: str
    detail: str


class Quotes:
    """What the papers of a session say of its words. The turns come by once, in order, and each takes what is its own:
    so a long session is proven without being held in memory."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[Path, str, Span]]] = {}
        self._heads: dict[int, list[tuple[Path, str]]] = {}

    def add_span(self, path: Path, who: str, span: Span) -> None:
        self._spans.setdefault(span.turn_id, []).append((path, who, span))

    def add_head(self, path: Path, seq: int, head: str) -> None:
        """A paper about the turns up to `seq` names the chain there, and cannot pass for another session's."""
        if seq:
            self._heads.setdefault(seq, []).append((path, head))

    def meet(self, line: chainlog.Line, turn: Turn | None) -> Iterator[Broken]:
        """A line of the log; `turn` is None where it is a tombstone."""
        for path, head in self._heads.pop(line.seq, ()):
            if head != line.chain:
                yield Broken(path, "chain", f"turn {line.seq} is not the one it names")
        gone = line.gone or {}
        if turn is None and gone["reason"] == EXPIRED:
            return  # it may have come back since
        turn_id = turn.turn_id if turn else gone["turn_id"]
        for path, who, span in self._spans.pop(turn_id, ()):
            if what := _wrong(span, turn.text if turn else None):
                yield Broken(path, "span", f"{who}: {what}")

    def unmet(self) -> Iterator[Broken]:
        for seq, heads in self._heads.items():
            yield from (Broken(path, "chain", f"is about turn {seq}, which is not here") for path, _ in heads)
        for turn_id, spans in self._spans.items():
            yield from (Broken(path, "span", f"{who}: turn {turn_id} is not here") for path, who, _ in spans)


def _wrong(span: Span, text: str | None) -> str:
    if text is None:
        return f"turn {span.turn_id} is forgotten"
    if not span.text_exact or text[span.start : span.end] != span.text_exact:
        return f"turn {span.turn_id} does not say this from {span.start} to {span.end}"
    return ""


# The words of a session by turn; None for a tombstone.
_Texts = dict[str, str | None]


class Sources:
    """The words of the sessions asked for last, as many as there is room for."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: OrderedDict[SessionKey, _Texts] = OrderedDict()
        self._room = _CHARACTERS_IN_MEMORY

    def check(self, session: SessionKey, claims: Sequence[Claim], damaged: bool) -> list[str]:
        """What is wrong with claims of one session. Where its log is damaged, that is told already: turns that are not
        there are then no news."""
        found = list(self._wrong(session, claims, damaged))
        if found:  # somebody may have written since they were read
            self._let_go(session)
            found = list(self._wrong(session, claims, damaged))
        return found

    def _wrong(self, session: SessionKey, claims: Sequence[Claim], damaged: bool) -> Iterator[str]:
        texts = self._texts(session)
        for claim in claims:
            for span in claim.spans:
                if span.turn_id not in texts:
                    if not damaged:
                        yield f"claim {claim.claim_id}: turn {span.turn_id} of {session.uri} is not here"
                elif what := _wrong(span, texts[span.turn_id]):
                    yield f"claim {claim.claim_id}: {what} in {session.uri}"

    def _texts(self, session: SessionKey) -> _Texts:
        texts = self._known.get(session)
        if texts is None:
            texts = dict(_read(self._layout.session(session) / TURNS))
            self._known[session] = texts
            self._room -= _size(texts)
            while self._room < 0 and len(self._known) > 1:
                self._let_go(next(iter(self._known)))
        self._known.move_to_end(session)
        return texts

    def _let_go(self, session: SessionKey) -> None:
        self._room += _size(self._known.pop(session))


def _size(texts: _Texts) -> int:
    return sum(len(text or "") for text in texts.values())


def _read(path: Path) -> Iterator[tuple[str, str | None]]:
    for line in chainlog.readable_lines(path):
        if line.gone:
            yield line.gone["turn_id"], None
        elif line.body is not None:
            turn = Turn.model_validate_json(line.body)
            yield turn.turn_id, turn.text
