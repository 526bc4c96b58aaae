"""What words can bear: who said them, whether the user confirmed them, whether a tool stands behind them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from mnemon.contracts.governance import EvidenceLevel
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.clauses import sentences
from mnemon.logic.denoise import verbatim_length
from mnemon.logic.support import Cited, unsupported
from mnemon.logic.text import fold

_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/evidence.toml").read_text(encoding="utf-8"))
_FLAGS = re.IGNORECASE


def _any(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in patterns), _FLAGS)


_REMEMBER = _any(_DATA["remember"])
_NOT_REMEMBER = _any(_DATA["not_remember"])
_CONFIRM = _any(_DATA["confirm"])
_NOT_CONFIRM = _any(_DATA["not_confirm"])
_OFFER = _any(_DATA["offer"])
_BLOCK = re.compile(rf"<({'|'.join(_DATA['foreign_blocks'])})(?=[\s>/])[^>]*>.*?(?:</\1\s*>|\Z)", _FLAGS | re.DOTALL)
_NOBODY = frozenset(_DATA["nobody"])
_HEADS = "|".join(_DATA["foreign_heads"])
_FOREIGN_LINES = [re.compile(line.replace("HEADS", _HEADS), _FLAGS) for line in _DATA["foreign_lines"]]
# What the program knows about words, and the levels a judgement of them may have: never a tool where there was none.
_MAY_BE = {
    EvidenceLevel.AI_INFERENCE: (EvidenceLevel.AI_INFERENCE,),
    EvidenceLevel.USER_CLAIM: (EvidenceLevel.AI_INFERENCE, EvidenceLevel.USER_CLAIM),
    EvidenceLevel.TOOL_GROUNDED: (EvidenceLevel.AI_INFERENCE, EvidenceLevel.TOOL_GROUNDED),
    EvidenceLevel.USER_CONFIRMED: (EvidenceLevel.AI_INFERENCE, EvidenceLevel.USER_CLAIM, EvidenceLevel.USER_CONFIRMED),
}


def asks_to_remember(text: str) -> bool:
    """Does the speaker ask for this to be remembered, in so many words?"""
    plain = text.replace("’", "'")
    if not _REMEMBER.search(plain):
        return False
    said = (plain[start:end] for start, end in sentences(plain))
    return any(_REMEMBER.search(sentence) and not _NOT_REMEMBER.search(sentence) for sentence in said)


def confirms(text: str) -> bool:
    """Does this plainly say yes to what was said before?"""
    plain = text.strip().replace("’", "'")
    return bool(_CONFIRM.search(plain)) and not _NOT_CONFIRM.search(plain)


def judged(said: EvidenceLevel, bears: EvidenceLevel) -> EvidenceLevel:
    """A judgement of words, as far as they bear it: weaker counts, stronger does not, and a wrong sort is put right."""
    if said in _MAY_BE[bears]:
        return said
    return EvidenceLevel.USER_CLAIM if bears is EvidenceLevel.USER_CONFIRMED else bears


def foreign_ranges(turn: Turn) -> list[tuple[int, int]]:
    """Where a turn holds what its speaker did not say there: recalled memories, contexts, the mark of a cut. Of what a
    system says, nobody said a word."""
    if turn.role is Role.SYSTEM:
        return [(0, len(turn.text))]
    found = [m.span() for m in _BLOCK.finditer(turn.text)] if "<" in turn.text else []
    if turn.role is not Role.TOOL:
        found += [m.span() for line in _FOREIGN_LINES for m in line.finditer(turn.text)]
    own = verbatim_length(turn)
    return [*found, (own, len(turn.text))] if own < len(turn.text) else found


def is_own(turn: Turn, start: int, end: int) -> bool:
    return all(end <= a or b <= start for a, b in foreign_ranges(turn))


def own_words(turn: Turn) -> str:
    """The turn with what is foreign in it blanked out, place by place."""
    text = turn.text
    for start, end in foreign_ranges(turn):
        text = f"{text[:start]}{chr(10) * (end - start)}{text[end:]}"
    return text


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, to be asked about their neighbours."""

    turns: tuple[Turn, ...]
    places: dict[str, int]

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Conversation:
        return cls(tuple(turns), {turn.turn_id: n for n, turn in enumerate(turns)})

    def get(self, turn_id: str) -> Turn | None:
        place = self.places.get(turn_id)
        return None if place is None else self.turns[place]

    @property
    def people(self) -> frozenset[str]:
        """The names of those who speak as users."""
        names = {turn.speaker for turn in self.turns if turn.role is Role.USER}
        return frozenset(name for name in names if fold(name) not in _NOBODY)

    def bears(self, turn_id: str, start: int, end: int) -> EvidenceLevel:
        """The strongest evidence level these words can carry, whatever anybody says about them."""
        place = self.places[turn_id]
        turn = self.turns[place]
        if not is_own(turn, start, end):
            return EvidenceLevel.AI_INFERENCE
        match turn.role:
            case Role.USER:
                own = own_words(turn)
                sure = asks_to_remember(own) or (self._answers(place) and confirms(own))
                return EvidenceLevel.USER_CONFIRMED if sure else EvidenceLevel.USER_CLAIM
            case Role.TOOL:
                return EvidenceLevel.TOOL_GROUNDED
            case Role.ASSISTANT if self.confirmed(place, end):
                return EvidenceLevel.USER_CONFIRMED
            case Role.ASSISTANT if self._grounded(place, turn.text[start:end]):
                return EvidenceLevel.TOOL_GROUNDED
            case _:
                return EvidenceLevel.AI_INFERENCE

    def _answers(self, place: int) -> bool:
        return place > 0 and self.turns[place - 1].role is Role.ASSISTANT

    def confirmed(self, place: int, end: int) -> bool:
        """Does the user say yes to what the assistant said up to there?"""
        after = self.turns[place + 1] if place + 1 < len(self.turns) else None
        if after is None or after.role is not Role.USER or not confirms(own_words(after)):
            return False
        text = self.turns[place].text
        start, stop = (sentences(text) or [(0, len(text))])[-1]
        return end > start or not _OFFER.search(text[start:stop])

    def question_before(self, turn_id: str) -> str:
        """What the assistant asked right before, if that is what these words answer."""
        place = self.places[turn_id]
        if not self._answers(place):
            return ""
        asked = self.turns[place - 1].text
        start, end = (sentences(asked) or [(0, len(asked))])[-1]
        return asked[start:end] if asked[start:end].rstrip().endswith(("?", "？")) else ""

    def _grounded(self, place: int, words: str) -> bool:
        """Do the tools called just before say the same?"""
        tools: list[Turn] = []
        for turn in reversed(self.turns[:place]):
            if turn.role is Role.USER:
                break
            if turn.role is Role.TOOL:
                tools.append(turn)
        return bool(tools) and not unsupported(words, [Cited(t.text, from_tool=True) for t in tools])
