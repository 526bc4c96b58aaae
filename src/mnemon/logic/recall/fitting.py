"""Does a clause answer the question? Of the right person, in the right area, with what the question names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role
from mnemon.logic import dates
from mnemon.logic.clauses import sentences
from mnemon.logic.language import language_of
from mnemon.logic.numerals import numbers
from mnemon.logic.recall.aftermath import confirmed, correction, taken_back
from mnemon.logic.recall.answering import Candidates, in_area
from mnemon.logic.recall.asking import Asked
from mnemon.logic.recall.fit import Fit
from mnemon.logic.recall.meaning import OF_ONESELF, bids, orders
from mnemon.logic.recall.nearness import Near
from mnemon.logic.recall.relevance import BESIDE, BESIDE_VALUE, ENOUGH, LINKED, ORDERED, Signs, relevance
from mnemon.logic.recall.saying import EARNEST, Saying, place
from mnemon.logic.recall.tables import CORRECTS, SHORT_ANSWER, STANDS, THREAD, Area
from mnemon.logic.recall.upcoming import days_of, lies_ahead, upcoming
from mnemon.logic.recall.wording import Worded, mentions, telling_words
from mnemon.logic.support import content_terms
from mnemon.logic.text import fold, pieces

_FARTHEST = 15.0
# So few messages of a time that was named need not be told apart.
_HANDFUL = 3
_PLAINLY = 0.6
_ALONE = 5.0
_SAID = 0.6
# From where on two messages are one matter.
_LIKE = 4.0
_LIKE_SCORE = 0.32
_TWINS = 5
_AFTER_ALL = 8.0
_HIGHEST = 0.6
_OF_YOU = re.compile(r"[你您]|\byou", re.IGNORECASE)
_FROM = re.compile(
    r"从.{1,12}?(?=换|转|改|到|搬)|\bfrom [\w .+#-]{1,20}?(?= to\b)|\binstead of [\w .+#-]{1,20}", re.IGNORECASE
)


class Fits:
    """Everything that was read, weighed against one question and against each other."""

    def __init__(self, asked: Asked, now: datetime) -> None:
        self.asked = asked
        self._today = now.date()
        self._clauses = Candidates(asked)
        self.near: dict[str, Near] = {}
        self.words: dict[str, float] = {}
        self._lead: Message | None = None
        self._twin = ""
        self._best = self._second = self._top = self._top_order = self._most = 0.0
        self._all_there_is = False

    @property
    def thread(self) -> str:
        """What a project is called."""
        return self._clauses.thread

    def follow(self, fits: Sequence[Fit]) -> bool:
        """Of projects the one spoken of last: is its name new?"""
        counting = [fit for fit in fits if fit.counts]
        names = dict.fromkeys(name for fit in counting if (name := _thread(fit.saying.whole)))
        latest = next((n for fit in reversed(counting) for n in names if n in fit.message.content), "")
        if not latest or latest == self.thread:
            return False
        self._clauses.follow(latest)
        return True

    def of(self, messages: Iterable[Message]) -> list[Fit]:
        """In the order they were said."""
        there = sorted(messages, key=place)
        by_session: dict[str, list[Message]] = {}
        for message in there:
            by_session.setdefault(message.session_id, []).append(message)
        for talk in by_session.values():
            self._clauses.in_talk(talk)
        ranked = sorted((self._stands_out(m) for m in there if self._could_answer(m)), reverse=True)
        self._best, self._second = (*ranked[:2], 0.0, 0.0)[:2]
        answering = [parts for m in there for parts in self._clauses.of(m)]
        self._top = max((self._relevance(*parts) for parts in answering), default=0.0)
        self._top_order = max((self._relevance(*parts) for parts in answering if self._ordered(parts[0])), default=0.0)
        self._most = max((covers for _, _, covers in answering), default=0.0)
        self._all_there_is = 0 < len({said.message.message_id for said, _, _ in answering}) <= _HANDFUL
        found = [fit for message in there for fit in self._message(message, by_session[message.session_id])]
        return _narrowed(self.asked, found)

    def _stands_out(self, message: Message) -> float:
        near = self.near.get(message.message_id)
        return near.stands_out if near else 0.0

    def _could_answer(self, message: Message) -> bool:
        return bool(self._clauses.of(message))

    def _message(self, message: Message, around: Sequence[Message]) -> list[Fit]:
        fits = [fit for said in self._clauses.sayings(message) if (fit := self._fit(said)) is not None]
        if not fits and message.message_id == self._twin:
            fits = self._told_otherwise(message)
        if message.role == Role.USER and not fits and (answer := self._answer(message, around)):
            return [answer]
        if not fits:
            return []
        if message.role == Role.ASSISTANT and self.asked.role is not Role.ASSISTANT:
            yes = confirmed(message, around)
            return [replace(fit, counts=True, also=(yes.message_id,)) if yes else fit for fit in fits]
        if (standing := taken_back(fits[0].saying, around)) is not None:
            return [replace(fit, counts=False, saying=replace(fit.saying, standing=standing)) for fit in fits]
        right = correction(message, around)
        if right is not None and (put_right := self._put_right(fits, right)) is not None:
            wrong = [replace(f, counts=False, saying=replace(f.saying, standing="corrected")) for f in fits]
            return [*wrong, put_right]
        return fits

    def trace(self, lead: Message, near: Mapping[str, Near], messages: Mapping[str, Message]) -> None:
        """Of what is nearest to the words found, the nearest that could answer: one matter, told at another time."""
        nearest = sorted(near.items(), key=lambda row: -row[1].stands_out)[: _TWINS + 1]
        if self.asked.still:
            nearest += [(id_, how) for id_, how in self.near.items() if how.stands_out >= _AFTER_ALL]
        for id_, how in nearest:
            if id_ == lead.message_id or id_ not in messages or how.stands_out < _LIKE:
                continue
            other = messages[id_]
            like = how.score >= _LIKE_SCORE or _share(lead.content, other.content)
            if like and self._could_answer(other) and self._of_the_area(lead, other):
                self._lead, self._twin = lead, id_
                return

    def _of_the_area(self, lead: Message, other: Message) -> bool:
        """Where only one value holds, and the words found give one, only another one can have come instead."""
        area = self.asked.area
        if area is None or not area.single or not any(in_area(area, said) for said in self._clauses.sayings(lead)):
            return True
        return any(in_area(area, said) for said in self._clauses.sayings(other))

    def _told_otherwise(self, message: Message) -> list[Fit]:
        """The twin of what was found, where the later of the two speaks of a change, or one of them of doubt."""
        asked, lead = self.asked, self._lead
        found = self._clauses.of(message)
        if lead is None or not found:
            return []
        earlier, later = sorted((message, lead), key=place)
        told = any(s.turning or s.standing == "vague" for s in self._clauses.sayings(later))
        shared = _share(earlier.content, later.content)
        likely = max(self._relevance(*parts) for parts in found) >= LINKED
        doubted = any(s.standing == "vague" for m in (earlier, later) for s in self._clauses.sayings(m))
        if asked.decides and not (asked.still or doubted) and not any(covers for _, _, covers in found):
            return []
        if any(said.standing == "vague" for said, _, _ in found):
            found = [parts for parts in found if parts[0].standing == "vague"]
        otherwise = told or asked.now or (asked.one_value and shared and likely)
        if not asked.still and not (otherwise and (shared or likely)):
            return []
        return [replace(self._made(*parts, True), linked=lead.message_id) for parts in found]

    def _put_right(self, fits: Sequence[Fit], right: Message) -> Fit | None:
        """The clause of a correction that holds the new value, in the place of the old one."""
        said = [s for s in self._clauses.sayings(right) if not CORRECTS.fullmatch(s.text) and len(s.text) > 2]
        dated = [s for s in said if dates.find(s.text, s.said_at) or numbers(fold(s.text))]
        telling = [s for s in said if not CORRECTS.search(s.text)] or said
        best = next(iter(dated or telling), None)
        if best is None:
            return None
        first = next((fit for fit in fits if fit.counts), fits[0])
        if dates.find(first.saying.whole, first.saying.said_at) and not dated:
            return None
        said_so = replace(best, standing="plain", who="")
        return replace(
            first, saying=said_so, counts=True, value=content_terms(best.text), topic=self.topic, due=first.due
        )

    def _answer(self, message: Message, around: Sequence[Message]) -> Fit | None:
        """A short answer to the assistant's question: "any allergies?" "Peanuts"."""
        at = next(n for n, other in enumerate(around) if other.message_id == message.message_id)
        before = around[at - 1] if at else None
        if before is None or before.role != Role.ASSISTANT or self.asked.about or not self.asked.areas:
            return None
        length = sum(len(run) + bool(word) for run, word in pieces(message.content))
        if not 0 < length <= SHORT_ANSWER[language_of(message.content)]:
            return None
        asked = [before.content[a:b] for a, b in sentences(before.content)][-1:]
        if not asked or not asked[0].rstrip().endswith(("?", "？")):
            return None
        area = next((a for a in self.asked.areas if a.asked.search(asked[0])), None)
        said = self._clauses.sayings(message)
        if area is None or area.needs_name or not said or any(s.standing not in EARNEST for s in said):
            return None
        whole = replace(said[0], end=said[-1].end, sentence=(said[0].sentence[0], said[-1].sentence[1]))
        return self._made(whole, area, 1.0, True, topic=self.topic, also=(before.message_id,))

    @property
    def topic(self) -> str:
        """What the question is about, in a word or two of its own."""
        if self.asked.needles:
            return " ".join(wanted.text for wanted in self.asked.needles)
        return self.asked.area.label[self.asked.language] if self.asked.area else ""

    def _fit(self, said: Saying) -> Fit | None:
        asked = self.asked
        of_them = asked.role is Role.ASSISTANT
        if (said.message.role == Role.ASSISTANT) != of_them and not (said.standing == "echo" and not of_them):
            return None
        area = next((area for area in asked.areas if in_area(area, said)), None)
        if asked.of_schedule and area is None and lies_ahead(said):
            area = asked.area
        if self.thread:
            if self.thread not in said.message.content:
                return None
            area = area or asked.area
        if said.standing == "echo" and not of_them and not _OF_YOU.search(said.text):
            return None
        covers = self._clauses.covers(said, area)
        if not self._enough(said, area, covers):
            return None
        mine = self._clauses.right_person(said)
        counts = mine and self._clauses.in_earnest(said, area) and self._clauses.holds_wanted(said)
        if not mine and said.standing in EARNEST:
            return None
        fit = self._made(said, area, covers, counts)
        return (
            upcoming(fit, asked.period, self._today)
            if asked.of_schedule and not asked.needles and area is not None
            else fit
        )

    def _made(
        self, said: Saying, area: Area | None, covers: float, counts: bool, topic: str = "", also: tuple[str, ...] = ()
    ) -> Fit:
        value = area.says.search(said.text) if area and area.single else None
        object_ = next((v for v in value.groupdict().values() if v), "") if value else ""
        kinds = self._kinds(said.whole) if self.asked.singular else []
        return Fit(
            saying=said,
            area=area,
            covers=covers,
            counts=counts,
            things=mentions(said.text),
            value=content_terms(object_ or said.text),
            kinds=frozenset(kinds),
            side=self._side(said),
            named=sum(n.stands_in(Worded(said.text)) for n in self.asked.needles if n.text not in self.asked.names),
            topic=topic,
            also=also,
            whole=self.asked.of_project,
            relevant=self._relevance(said, area, covers),
        )

    def _kinds(self, text: str) -> list[str]:
        """Which of the things asked for are named, without those that were given up: from Vim to VS Code."""
        now = Worded(_FROM.sub(" ", text))
        return [kind for wanted in self.asked.needles for kind in wanted.kinds if now.holds(kind)]

    def signs(self, said: Saying, area: Area | None, covers: float) -> Signs:
        """What speaks for a sentence, as the clause shows it."""
        asked, near = self.asked, self.near.get(said.message.message_id)
        words = self.words.get(said.message.message_id, 0.0)
        stands_out = max(near.stands_out, 0.0) if near else 0.0
        best = stands_out >= self._best > 0
        named = any(n.stands_in(Worded(said.text)) for n in asked.needles)
        fits = area is not None and not area.needs_name
        return Signs(
            stands_out=min(stands_out, _FARTHEST) / 10,
            score=min(near.score, _HIGHEST) / _HIGHEST if near else 0.0,
            of_best=self._of_best(stands_out, words),
            lead=1 - self._second / self._best if best and not asked.decides else 0.0,
            words=words,
            covers=covers,
            named=float(named),
            area=float(fits),
            single=float(fits and area is not None and area.single),
            elsewhere=float(bool(asked.areas) and area is None),
            turned=float(said.turning and (asked.still or asked.now)),
            order=float(self._ordered(said)),
            unnamed=float(bool(asked.needles) and not covers),
        )

    def _of_best(self, stands_out: float, words: float) -> float:
        """Its share of what is nearest; where nothing could be looked up by meaning, by words."""
        if not self.near:
            return words
        return min(stands_out / self._best, 1.0) if self._best > 0 and not self.asked.decides else 0.0

    def _ordered(self, said: Saying) -> bool:
        """Is it a standing order, where such are asked for?"""
        area = self.asked.area
        return area is not None and area.asks and orders(said)

    def _enough(self, said: Saying, area: Area | None, covers: float) -> bool:
        asked = self.asked
        if asked.role is Role.ASSISTANT:
            return area is not None
        if asked.of_schedule and not asked.needles:
            # What names no day answers only where it is plainly meant.
            return area is not None or (self._relevance(said, area, covers) >= _PLAINLY and not days_of(said))
        if self.thread and self.thread in said.message.content:
            return True
        if asked.said and asked.needles and covers < _SAID:
            return False
        if self._all_there_is and (asked.only_by_time or (asked.windows.exact and area is not None)):
            return True
        on_it = covers > 0 if asked.needles else area is not None
        if said.of_thing and not on_it and not OF_ONESELF.search(said.whole):
            return self._relevance(said, area, covers) >= _PLAINLY  # the weather is nobody's
        if asked.of_project and covers == 1.0:
            return True
        if asked.decides and all(len(n.text) == 1 and not n.same for n in asked.needles) and asked.needles:
            on_it = on_it and self._stands_out(said.message) >= _ALONE  # one character is in many words
        if asked.decides and not on_it and not (asked.still and said.turning):
            return False  # yes or no can only be read from words on the very thing
        if not self.near and covers == 1.0:
            return True  # of so few messages none stands out, and the words are all there
        relevant = self._relevance(said, area, covers)
        if area is not None and ((area.single and area is asked.area) or (not asked.needles and not area.needs_name)):
            return relevant >= LINKED
        if self._ordered(said) and not asked.decides:
            return relevant >= max(ORDERED, self._top_order * BESIDE)
        if covers < self._most and not said.turning and self._most == 1.0 and area is None:
            return False  # something else names all that the question names
        several = asked.of_project or (area is not None and not asked.needles)
        beside = BESIDE_VALUE if asked.wants else BESIDE
        return relevant >= (ENOUGH if several else max(ENOUGH, self._top * beside))

    def _relevance(self, said: Saying, area: Area | None, covers: float) -> float:
        return relevance(self.signs(said, area, covers))

    def _side(self, said: Saying) -> int:
        words = Worded(said.text)
        sides = [n for n, wanted in enumerate(self.asked.either) if words.holds_any((wanted.text, *wanted.same))]
        return sides[0] if len(sides) == 1 else -1


def _share(one: str, other: str) -> bool:
    """Do two texts share a word, or a pair of characters?"""
    return bool(telling_words(one) & telling_words(other))


def _thread(text: str) -> str:
    match = THREAD.search(text)
    return next((name for name in match.groups() if name), "") if match else ""


def _narrowed(asked: Asked, fits: list[Fit]) -> list[Fit]:
    """Of what lies ahead what has a day, of orders the orders, of requests those that name what the question names; if
    there are any."""
    if asked.area is not None and any(fit.counts and fit.area is asked.area for fit in fits):
        fits = [fit for fit in fits if fit.area is not None or fit.linked or fit.named or not fit.counts]
    if asked.area is not None and asked.area.asks and any(fit.counts and bids(fit.saying) for fit in fits):
        fits = [fit for fit in fits if bids(fit.saying) or not fit.counts or STANDS.search(fit.saying.whole)]
    if asked.needles and any(fit.counts and fit.covers > 0 for fit in fits):
        return [fit for fit in fits if fit.covers > 0 or fit.topic or not (fit.area and fit.area.asks)]
    return fits
