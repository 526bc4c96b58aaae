"""Scoring what `recall` answers against questions labelled by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recall_people import TENANT, Label, Part, Person, Question, messages, people, write

from mnemon import Memory
from mnemon.contracts.recall import Evidence, Item, RecallResult
from mnemon.contracts.results import Message
from mnemon.logic.text import fold

MOST_CALLS = 8


@dataclass
class Score:
    """`right` of the `expected` items were found; `wrong` ones nobody expected, or the same one again. `cited` counts
    what items rest on or are set against, `cited_well` what a reader would accept there. `baseless` is what was stated
    without words somebody said."""

    questions: int = 0
    expected: int = 0
    right: int = 0
    wrong: int = 0
    cited: int = 0
    cited_well: int = 0
    conflicts: int = 0
    conflicts_right: int = 0
    baseless: int = 0
    unanswerable: int = 0
    unknown_said: int = 0
    calls: list[int] = field(default_factory=list)
    # Not shown when a test fails: whoever works on the planner is not to read what it gets wrong in the test part.
    errors: list[str] = field(default_factory=list, repr=False)

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def items_correct(self) -> float:
        """A wrong item costs as much as a missed one."""
        return _share(self.right, self.expected + self.wrong)

    @property
    def precision(self) -> float:
        return _share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return _share(self.right, self.expected)

    @property
    def evidence(self) -> float:
        return _share(self.cited_well, self.cited)

    @property
    def settled(self) -> float:
        return _share(self.conflicts_right, self.conflicts)

    @property
    def dont_know(self) -> float:
        return _share(self.unknown_said, self.unanswerable)

    @property
    def few_calls(self) -> float:
        return _share(sum(calls <= MOST_CALLS for calls in self.calls), len(self.calls))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def scores(memory: Memory, part: Part) -> dict[str, Score]:
    """By language, and for both languages together; the histories are written into `memory` first."""
    out = {"zh": Score(), "en": Score()}
    for person in people(part):
        for score in asked(memory, person):
            out[person.language] += score
    return {**out, "both": out["zh"] + out["en"]}


def asked(memory: Memory, person: Person) -> Iterator[Score]:
    write(memory, person)
    stored = {message.message_id: message for message in messages(memory, person)}
    keys = {id_: message.meta["turn_id"] for id_, message in stored.items() if message.meta["turn_id"] in person.keys}
    for question in person.questions:
        yield Marked(question, memory.recall(question.ask, TENANT, person.id), keys, stored).score()


@dataclass(frozen=True)
class Marked:
    """An answer next to its labels; `keys` names the messages that have one, `stored` are all there are."""

    question: Question
    result: RecallResult
    keys: dict[str, str]
    stored: dict[str, Message]

    @property
    def items(self) -> tuple[Item, ...]:
        return self.result.memory_view.items()

    def score(self) -> Score:
        out = Score(questions=1, calls=[self.result.limits.calls], baseless=self._baseless())
        for label in (label for label in self.question.expect if not label.optional):
            good = self._found(label)
            out.expected += 1
            out.right += good
            out.conflicts += label.conflict
            out.conflicts_right += good and label.conflict
            if not good:
                out.errors.append(self._told("missed", f"{label}, not {self._shown(self.items)}"))
        surplus = self._surplus()
        out.wrong = len(surplus)
        out.errors += [self._told("wrong", self._shown([item])) for item in surplus]
        for side, cited, accepted in self._citations():
            bad = cited - accepted
            out.cited += len(cited)
            out.cited_well += len(cited) - len(bad)
            out.errors += [self._told("cited", f"{key} {side}") for key in sorted(bad)]
        if not self.question.expect:
            out.unanswerable, out.unknown_said = 1, not self.items
        return out

    def _found(self, label: Label) -> bool:
        """What cannot be settled is shown from both sides, in one item or in two."""
        fitting = [item for item in self.items if self._fits(item, label)]
        if not label.sides:
            return bool(fitting)
        shown = {key for item in fitting for key in self._named((*item.evidence, *item.against))}
        return bool(shown & label.evidence and shown & label.against)

    def _fits(self, item: Item, label: Label) -> bool:
        """The right status on the right shelf, the words that count, and the strongest evidence is the label's."""
        strongest, *others = self._named(item.evidence)
        statement = fold(item.statement)
        proof = " ".join([statement, *(fold(e.content) for e in self.result.evidence if e.message_id in item.evidence)])
        return (
            self._shelf(item) in label.shelves
            and item.status in label.statuses
            and strongest in label.evidence | label.sides
            and not self.question.never & {strongest, *others}
            and all(any(fold(word) in proof for word in either) for either in label.words)
            and any(fold(word) in statement for either in label.words for word in either)
        )

    def _surplus(self) -> list[Item]:
        """Items no label asks for, and items whose every label another has met: the same thing twice."""
        met: set[Label] = set()
        surplus = []
        for item in self.items:
            fitting = {label for label in self.question.expect if self._fits(item, label)}
            if not any(label not in met or label.sides for label in fitting):
                surplus.append(item)
            met |= fitting
        return surplus

    def _citations(self) -> Iterator[tuple[str, set[str], frozenset[str]]]:
        """What items rest on and what is set against them, each message once, and what a reader would accept."""
        labels, nothing = self.question.expect, frozenset[str]()
        unclear = nothing.union(*(label.sides for label in labels))
        evidence = nothing.union(*(label.evidence for label in labels)) - self.question.never
        against = self.question.never.union(*(label.against for label in labels))
        yield "for", {key for item in self.items for key in self._named(item.evidence)}, evidence | unclear
        yield "against", {key for item in self.items for key in self._named(item.against)}, against | unclear

    def _baseless(self) -> int:
        """Evidence that is no cut of a stored message, and items that cite what is not among the evidence."""
        shown = {evidence.message_id for evidence in self.result.evidence}
        return sum(not self._is_cut(evidence) for evidence in self.result.evidence) + sum(
            not item.evidence or not {*item.evidence, *item.against} <= shown for item in self.items
        )

    def _is_cut(self, evidence: Evidence) -> bool:
        message = self.stored.get(evidence.message_id)
        return (
            message is not None
            and message.content[evidence.start : evidence.end] == evidence.content
            and (message.ts, message.role, message.session_id) == (evidence.ts, evidence.role, evidence.session_id)
        )

    def _named(self, ids: tuple[str, ...]) -> list[str]:
        return [self.keys.get(id_, f"noise:{id_}") for id_ in ids]

    def _told(self, what: str, why: str) -> str:
        return f"{what:7} {self.question.ask!r}: {why}"

    def _shown(self, items: Sequence[Item]) -> str:
        return str([f"{self._shelf(i)} {i.status}: {i.statement} [{self._cited(i)}]" for i in items])

    def _shelf(self, item: Item) -> str:
        return next(name for name, shelved in self.result.memory_view if item in shelved)

    def _cited(self, item: Item) -> str:
        return " / ".join(", ".join(self._named(ids)) for ids in (item.evidence, item.against))
