"""What holds when messages disagree (003 §4.6): by the words around, by time, by who said it, or nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.recall import ItemStatus, Reason
from mnemon.logic import dates
from mnemon.logic.numerals import numbers
from mnemon.logic.recall.asking import Asked
from mnemon.logic.recall.fit import Fit
from mnemon.logic.recall.saying import place
from mnemon.logic.recall.tables import TURNS
from mnemon.logic.recall.wording import Mention, telling_words
from mnemon.logic.text import fold

_ALIKE = 0.5
_WEAK = ("vague", "over")


@dataclass(frozen=True, slots=True)
class Finding:
    """One matter, decided: what it rests on, the strongest first, what speaks against it, why that does not count or
    why nobody can tell. `past`: asked is how it was, and what is against it came later."""

    status: ItemStatus
    lead: Fit
    support: tuple[Fit, ...]
    against: tuple[Fit, ...] = ()
    reason: Reason = ""
    past: bool = False

    @property
    def conflict(self) -> bool:
        return bool(self.against)


def decided(asked: Asked, fits: Sequence[Fit]) -> list[Finding]:
    """Every matter of which something was said in earnest, the latest first."""
    found = [finding for matter in _matters(asked, fits) if (finding := _settled(asked, matter)) is not None]
    overcome = {fit.message.message_id for finding in found if finding.status == "changed" for fit in finding.against}
    found = [finding for finding in found if finding.lead.message.message_id not in overcome]
    return sorted(found, key=lambda finding: place(finding.lead.message), reverse=True)


def _matters(asked: Asked, fits: Sequence[Fit]) -> list[list[Fit]]:
    """Fits about the same thing together; each in the order in which they were said."""
    groups: list[list[Fit]] = []
    for fit in sorted(fits, key=lambda f: (not f.counts, place(f.message), f.saying.start)):
        home = next((group for group in groups if any(_same_matter(asked, fit, other) for other in group)), None)
        if home is not None:
            home.append(fit)
        elif fit.counts:
            groups.append([fit])
    return [sorted(group, key=lambda f: (place(f.message), f.saying.start)) for group in groups]


def _same_matter(asked: Asked, a: Fit, b: Fit) -> bool:
    if _linked(a, b):
        return True
    if asked.one_matter or _one_value(asked, a, b):
        return True
    if _same_sentence(a, b):
        return a.area is b.area or a.area is None or b.area is None
    if _turned(asked, a, b) or (a.things and a.things == b.things):
        return True
    if a.against != b.against and any(_same_thing(x, a.against, y, b.against) for x in a.things for y in b.things):
        return True
    return _alike(a, b)


def _linked(a: Fit, b: Fit) -> bool:
    return a.linked == b.message.message_id or b.linked == a.message.message_id


def _turned(asked: Asked, a: Fit, b: Fit) -> bool:
    """Does the later of the two say that the matter of the earlier one is no more as it was?"""
    earlier, later = sorted((a, b), key=lambda fit: place(fit.message))
    if asked.of_schedule or asked.of_project or _alike(a, b) or place(earlier.message) == place(later.message):
        return False
    if asked.still and later.saying.turning:
        return True
    turning = later.saying.turning and not earlier.saying.turning
    return (turning or asked.now) and bool(telling_words(earlier.saying.whole) & telling_words(later.saying.whole))


def _same_thing(x: Mention, x_against: bool, y: Mention, y_against: bool) -> bool:
    """The same, or one of them the whole kind: who is against all meat changed their mind about steak."""
    if x.thing != y.thing:
        return False
    if x.kind == y.kind:
        return True
    return (x_against if not x.kind else not y.kind and y_against) is True


def _alike(a: Fit, b: Fit) -> bool:
    either = a.value | b.value
    return bool(either) and len(a.value & b.value) >= len(either) * _ALIKE


def _opposes(asked: Asked, a: Fit, b: Fit) -> bool:
    if a.side >= 0 and b.side >= 0:
        return a.side != b.side
    if _linked(a, b):
        return True
    if _turned(asked, a, b) and (not asked.one_matter or asked.still):
        return True
    if _given(asked, a) and _given(asked, b) and _one_value(asked, a, b):
        return _given(asked, a) != _given(asked, b)
    if _one_value(asked, a, b) and a.saying.against == b.saying.against:
        return (a.kinds or a.value).isdisjoint(b.kinds or b.value)
    return a.against != b.against


def _one_value(asked: Asked, a: Fit, b: Fit) -> bool:
    """Can only one of them hold: one home, one editor, where the question asks which one?"""
    if a.kinds and b.kinds:
        return True
    if _given(asked, a) and _given(asked, b):
        alike = a.area is not None and a.area is b.area
        return alike or bool(telling_words(a.saying.told) & telling_words(b.saying.told))
    return a.area is not None and a.area is b.area and a.area.single


def _given(asked: Asked, fit: Fit) -> frozenset[object]:
    """The number or the day that is asked for, as this one gives it."""
    if "number" in asked.wants:
        return frozenset(value for value, _, _ in numbers(fold(fit.saying.told)))
    if "when" in asked.wants:
        days = frozenset(dated.begins for dated in dates.find(fit.saying.told, fit.saying.said_at))
        return days or frozenset(value for value, _, _ in numbers(fold(fit.saying.told)))
    return frozenset()


def _settled(asked: Asked, matter: Sequence[Fit]) -> Finding | None:
    earnest = _one_a_sentence([fit for fit in matter if fit.counts])
    firm = [
        fit
        for fit in earnest
        if asked.of_project or fit.saying.standing not in _WEAK or (asked.past and fit.saying.standing == "over")
    ]
    if not firm:
        return _unclear(asked, earnest)
    lead = firm[-1]
    doubts = [f for f in earnest if f.saying.standing == "vague" and _later(f, lead) and _opposes(asked, f, lead)]
    if doubts:
        return Finding("uncertain", lead, (lead,), tuple(reversed(doubts)), "unclear")
    beside = [f for f in matter if f.counts and f is not lead and _same_sentence(f, lead)]
    support = (lead, *beside, *(f for f in reversed(firm[:-1]) if not _opposes(asked, f, lead) and _says_so(f, lead)))
    earlier = [f for f in earnest if f is not lead and f not in support and f.saying.standing != "vague"]
    earlier = [f for f in earlier if _opposes(asked, f, lead)]
    if earlier and asked.past:
        return Finding("changed", earlier[-1], tuple(reversed(earlier)), (lead,), "changed", past=True)
    if earlier:
        other = tuple(f for f in reversed(earlier) if f.message.message_id != lead.message.message_id)
        return Finding("changed", lead, support, other, "changed")
    if lead.saying.turning and (asked.now or asked.still):
        return Finding("changed", lead, support, (), "changed")
    misread = [f for f in matter if not f.counts and _speaks_against(asked, f, lead)]
    if not misread:
        return Finding("settled", lead, support)
    reason: Reason = "source" if all(f.saying.standing == "echo" for f in misread) else "context"
    return Finding("settled", lead, support, tuple(reversed(misread)), reason)


def _says_so(fit: Fit, lead: Fit) -> bool:
    """The same once more, not only something else about it."""
    return _alike(fit, lead) or bool(fit.things & lead.things)


def _one_a_sentence(fits: Sequence[Fit]) -> list[Fit]:
    """Of each sentence the clause that says it: where it tells of a change the last one, else the first."""
    by_sentence: dict[tuple[str, int], list[Fit]] = {}
    for fit in fits:
        by_sentence.setdefault((fit.message.message_id, fit.saying.sentence[0]), []).append(fit)
    return [told for here in by_sentence.values() for told in _telling(here)]


def _telling(here: Sequence[Fit]) -> list[Fit]:
    over = [fit for fit in here if fit.saying.standing == "over"]
    now = [fit for fit in here if fit.saying.standing != "over"]
    if over and now:
        return [over[0], now[-1]]
    return [
        max(
            here,
            key=lambda fit: (
                fit.named,
                fit.saying.standing == "vague",
                fit.area is not None,
                bool(TURNS.search(fit.saying.text)),
                -fit.saying.start,
            ),
        )
    ]


def _same_sentence(a: Fit, b: Fit) -> bool:
    return a.message.message_id == b.message.message_id and a.saying.sentence == b.saying.sentence


def _unclear(asked: Asked, earnest: Sequence[Fit]) -> Finding | None:
    """Only hints, or only how it used to be."""
    if not earnest:
        return None
    lead = earnest[0]
    other = tuple(f for f in earnest[1:] if _opposes(asked, f, lead))
    support = tuple(f for f in earnest if f not in other)
    return Finding("uncertain", lead, support, other, "unclear")


def _speaks_against(asked: Asked, fit: Fit, lead: Fit) -> bool:
    """What was no statement of the user's, and would have said otherwise."""
    if fit.saying.standing == "corrected":
        return True
    if fit.saying.standing in ("asked", "request", "hearer"):
        return False
    return bool({t.thing for t in fit.things} & {t.thing for t in lead.things}) and _opposes(asked, fit, lead)


def _later(a: Fit, b: Fit) -> bool:
    return place(a.message) > place(b.message)
