"""Which clauses could answer a question: meant in earnest, of the right person, holding what is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role
from mnemon.logic import dates
from mnemon.logic.numerals import numbers
from mnemon.logic.recall.asking import Asked
from mnemon.logic.recall.reading import read
from mnemon.logic.recall.saying import Saying
from mnemon.logic.recall.tables import HABITS, IF_I, LASTING, STANDS, Area
from mnemon.logic.recall.wording import KIN, Worded, related, relation
from mnemon.logic.text import fold

# A clause, the area it falls into, and the share of what the question names.
Answering = tuple[Saying, Area | None, float]

# Beside a thing that is known, what else is left of a Chinese question is mostly its verb.
_GLUE = 0.4
_WISHES = re.compile(r"打算|想|计划|准备|希望|\b(?:want|plan|going to|hope|intend)", re.IGNORECASE)
_TIMES = re.compile(
    r"\d|[正腊一二三四五六七八九十]月|初[一二三四五六七八九十]|早|晚|[上中下]午|凌晨|夜|点|周"
    r"|\b(?:morning|evening|night|midnight|noon|afternoon|\w+days?)\b"
)
_PRONOUNS = ("他", "她", "他们", "她们", "he", "she", "they", "it")
_RULE = re.compile(r"规矩|规则|\brules?\b|\bunless i\b|除非我", re.IGNORECASE)
_NAMES = re.compile(r"叫|名字?|[A-Z][a-z]+|\b(?:call|name)", re.ASCII)


class Candidates:
    """The clauses of messages, asked one question. Messages are read once, however often they are looked at."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.thread = ""
        self._read: dict[str, tuple[Saying, ...]] = {}
        self._could: dict[str, list[Answering]] = {}
        self._before: dict[str, str] = {}

    def follow(self, thread: str) -> None:
        """From now on what is asked about goes by this name."""
        self.thread = thread
        self._could.clear()

    def in_talk(self, messages: Iterable[Message]) -> None:
        """Messages of one talk in their order: "she" is whom the one before it named."""
        for earlier, later in pairwise(m for m in messages if m.role == Role.USER):
            if self._before.get(later.message_id) != earlier.content:
                self._before[later.message_id] = earlier.content
                self._could.pop(later.message_id, None)

    def sayings(self, message: Message) -> tuple[Saying, ...]:
        if message.message_id not in self._read:
            self._read[message.message_id] = read(message)
        return self._read[message.message_id]

    def of(self, message: Message) -> list[Answering]:
        """The clauses that could answer: in earnest, of the right person, with what is wanted."""
        if message.message_id not in self._could:
            self._could[message.message_id] = list(self._candidates(message))
        return self._could[message.message_id]

    def _candidates(self, message: Message) -> Iterator[Answering]:
        for said in self.sayings(message):
            area = next((area for area in self.asked.areas if in_area(area, said)), None)
            if self.right_person(said) and self.in_earnest(said, area) and self.holds_wanted(said):
                yield said, area, self.covers(said, area)

    def covers(self, said: Saying, area: Area | None) -> float:
        """The share of what the question names."""
        needles = (*self.asked.needles, *self.asked.either)
        if not needles:
            return 0.0
        if self.thread and self.thread in said.message.content:
            return 1.0
        clause = Worded(said.text)
        whole = Worded(said.whole if self.asked.about or self.asked.names else said.told)
        if area is None and not said.elliptic and not any(n.share(clause) for n in needles):
            return 0.0
        known = any(n.same for n in needles)
        weights = [_GLUE if known and not n.same and not n.text.isascii() else 1.0 for n in needles]
        # A kind of the thing answers only where the clause speaks of the right matter.
        wanted = [n if area is not None or not self.asked.areas else n.by_name for n in needles]
        if self.asked.either:
            return max(n.share(whole) for n in wanted)
        held = sum(weight * n.share(whole) for n, weight in zip(wanted, weights, strict=True))
        return held / sum(weights)

    def right_person(self, said: Saying) -> bool:
        asked = self.asked
        if asked.about:
            return related(said.who.split(" ")[0], asked.about) or self._spoken_of((asked.about,), said)
        if asked.names:
            return self._spoken_of(asked.names, said)
        if not said.who:
            return not (said.of_thing and asked.area is not None and asked.area.single)
        if said.named:
            return asked.of_project or any(n.stands_in(Worded(said.who)) for n in asked.needles)
        return any(relation(n.text) and related(said.who.split(" ")[0], n.text) for n in asked.needles)

    def _spoken_of(self, names: Sequence[str], said: Saying) -> bool:
        """Are they named in the sentence, or is it "she" after a message that named them?"""
        if any(fold(name) in fold(said.whole) for name in names):
            return True
        if fold(said.who).split("'")[0] not in _PRONOUNS:
            return False
        spoken = f"{self._before.get(said.message.message_id, '')} {said.message.content}"
        return any(fold(form) in fold(spoken) for name in names for form in (name, *KIN.get(relation(name), ())))

    def in_earnest(self, said: Saying, area: Area | None) -> bool:
        """Is it so, as far as this question goes? A wish answers what is wished, a promise what was promised."""
        match said.standing:
            case "plain" | "vague" | "over":
                return True
            case "wished":
                open_ = area is None and not self.asked.decides
                return open_ or bool(area and area.wishes) or _WISHES.search(self.asked.text) is not None
            case "echo":
                return self.asked.role is Role.ASSISTANT
            case "told":
                return bool(self.asked.names)
            case "asked":
                return bool(area and area.asks) and said.message.content.rstrip()[-1:] not in "?？"
            case "supposed" | "request":
                return not IF_I.search(said.whole) and (_lasts(said, area) or _RULE.search(said.whole) is not None)
            case _:
                return False

    def holds_wanted(self, said: Saying) -> bool:
        """A date, a number, a name, where the question asks for one."""
        whole = said.whole
        for wanted in self.asked.wants:
            if wanted == "when" and not dates.find(whole, said.said_at) and not _TIMES.search(whole):
                return False
            if wanted == "number" and not list(numbers(fold(whole))):
                return False
            if wanted == "name" and not self._names(said):
                return False
        return True

    def _names(self, said: Saying) -> bool:
        """What is called what: of the thing the question names, where it names one."""
        known = [n for n in self.asked.needles if n.same]
        if known or not _NAMES.search(said.whole):
            return any(n.share(Worded(said.whole)) for n in known or self.asked.needles)
        return True


def _lasts(said: Saying, area: Area | None) -> bool:
    """A request that is more than a task for now."""
    return LASTING.search(said.whole) is not None or (area is not None and area.name == "budget")


def in_area(area: Area, said: Saying) -> bool:
    if said.rule and said.rule in area.patterns:
        return True
    text = said.text
    if area.says.search(text) and (area.needs is None or area.needs.search(text)):
        return True
    if not area.about.search(text):
        return False
    return STANDS.search(text) is not None or (area.habits and HABITS.search(text) is not None)
