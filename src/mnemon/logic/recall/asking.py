"""What a question to memory asks for: which area of life, which things by name, of whom, in which form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from mnemon.contracts.claims import Language
from mnemon.contracts.recall import RecallSettings
from mnemon.contracts.turns import Role
from mnemon.logic import dates
from mnemon.logic.language import language_of
from mnemon.logic.polarity import negative
from mnemon.logic.recall.tables import AREAS, Area, load
from mnemon.logic.recall.windows import Span, Windows, named_days, windows
from mnemon.logic.recall.wording import KIN, NAMED, Needle, needle
from mnemon.logic.text import STOP_WORDS, fold, pieces, word_number

_DATA = load("asking")
_FORMS = {name: re.compile(text, re.IGNORECASE) for name, text in _DATA["forms"].items()}
# Names begin with a capital: the case counts.
_ABOUT_EN, _ABOUT_ZH = (re.compile(_DATA["forms"][name]) for name in ("about_en", "about_zh"))
_WANTS = {name: re.compile(text, re.IGNORECASE) for name, text in _DATA["wants"].items()}
_FRAME_ZH = re.compile("|".join(map(re.escape, sorted(_DATA["frame"]["zh"], key=len, reverse=True))))
_PARTS = re.compile(f"[{_DATA['frame']['zh_parts']}]")
_EDGES: str = _DATA["frame"]["zh_edges"]
_FRAME_WORDS = frozenset(_DATA["frame"]["zh"]) | frozenset(_DATA["frame"]["en"])
_FRAME_EN = frozenset(word_number(word) for word in _DATA["frame"]["en"]) | STOP_WORDS
_WHO_ZH = _FORMS["who_zh"]
_WINDOW_MARKS = re.compile("|".join(f"(?:{row['marks']})" for row in _DATA["window"]), re.IGNORECASE)
_KIN_ZH = "|".join(sorted((w for words in KIN.values() for w in words if not w.isascii()), key=len, reverse=True))
_LONG_KIN_ZH = "|".join(word for word in _KIN_ZH.split("|") if len(word) > 1)
_KIN_EN = "|".join(sorted((w for words in KIN.values() for w in words if w.isascii()), key=len, reverse=True))
_OF_KIN = re.compile(
    rf"(?:我(?:的|家)?|(?<![一-鿿])|说过|提过)(?P<zh>{_KIN_ZH})(?![一-鿿]*(?:了)?吗$(?<=有孩子吗))"
    rf"|(?P<long>{_LONG_KIN_ZH})(?=[的是有在喜爱对不能会叫做干过生住哪几多属](?!.*我))|(?P<they>{_LONG_KIN_ZH})(?=.*[他她])"
    rf"|\bmy (?:\w+ )?(?P<en>{_KIN_EN})(?:['’]s)?\b",
    re.IGNORECASE,
)
# Whether there is such a person is asked of the speaker, not of that person.
_HAVING = re.compile(r"有(?:没有|几个|多少)?(?:个|一个|几个)?$|(?:do|did) i have (?:any |a |an )?$", re.IGNORECASE)


_DIET = ("food", "allergy", "drink", "health")


@dataclass(frozen=True)
class Asked:
    """`areas` are the areas of life, the one that fits best first; `needles` what the question names; `about` somebody
    else it asks of, as a relation or a name; `wants` what an answer has to hold besides."""

    text: str
    language: Language
    areas: tuple[Area, ...]
    needles: tuple[Needle, ...]
    names: tuple[str, ...]
    about: str
    wants: tuple[str, ...]
    said: bool
    yes_no: bool
    still: bool
    past: bool
    singular: bool
    now: bool
    wish: bool
    against: bool
    either: tuple[Needle, ...]
    role: Role | None
    period: Span | None
    windows: Windows

    @property
    def area(self) -> Area | None:
        return self.areas[0] if self.areas else None

    @cached_property
    def of_schedule(self) -> bool:
        return self.area is not None and self.area.name == "schedule"

    @cached_property
    def of_project(self) -> bool:
        """How far something is: a project, or whatever the question names."""
        named = _FORMS["progress"].search(self.text) is not None and bool(self.needles)
        return named or (self.area is not None and self.area.name == "project")

    @property
    def names_something(self) -> bool:
        """Is there a word to look for as it stands: a name, a thing, or what may have been said in so many words?"""
        if not self.needles:
            return False
        return self.said or self.yes_no or bool(self.either or self.names) or any(n.fixed for n in self.needles)

    @property
    def only_by_time(self) -> bool:
        """Does it say when something was said, and nothing else that could tell one message from another?"""
        told = _FORMS["speech"].search(self.text) is not None
        return told and self.windows.exact and not self.needles and not self.areas and not self.about

    @property
    def one_value(self) -> bool:
        """Is one number, day, name or thing of a kind asked for?"""
        return bool(self.wants) or self.singular

    @cached_property
    def decides(self) -> bool:
        """Yes or no, of the very thing it names; advice may follow from something else."""
        return self.yes_no and _FORMS["advice"].search(self.text) is None

    @property
    def one_matter(self) -> bool:
        """Is there one thing to find out, so that whatever is said about it says yes, no, or something else instead?"""
        return bool(self.needles) and (self.decides or self.still or bool(self.either))


def understood(question: str, settings: RecallSettings, now: datetime) -> Asked:
    text = question.strip()
    language = settings.language or language_of(text)
    role = Role.ASSISTANT if _FORMS["assistant"].search(text) else settings.role
    about = _about(text)
    areas = _areas(_as_own(text, about), role)
    of_schedule = bool(areas) and areas[0].name == "schedule"
    yes_no = _FORMS["yes_no"].search(text) is not None and _FORMS["not_yes_no"].search(text) is None
    needles = _needles(text, now, about, _spoken(text, areas), short=yes_no)
    wants = tuple(name for name, form in _WANTS.items() if form.search(text))
    open_end = of_schedule or yes_no or _FORMS["progress"].search(text) is not None
    if of_schedule and not yes_no and "when" not in wants:
        needles = tuple(wanted for wanted in needles if wanted.same)
    return Asked(
        text=text,
        language=language,
        areas=areas,
        needles=needles,
        names=_names(text, needles),
        about=about,
        wants=wants,
        said=_FORMS["said"].search(text) is not None,
        yes_no=yes_no,
        still=_FORMS["still"].search(text) is not None,
        past=_FORMS["past"].search(text) is not None,
        singular=_FORMS["singular"].search(text) is not None,
        wish=_FORMS["wish"].search(text) is not None,
        now=_FORMS["now"].search(text) is not None,
        against=negative(_FRAME_QUESTION.sub("", text)),
        either=_either(text, now, about) if yes_no or "还是" in text else (),
        role=role,
        period=named_days(text, now) if of_schedule else None,
        windows=windows(text, settings, now, ahead=of_schedule or role is Role.ASSISTANT, open_end=open_end),
    )


# 是不是, 有没有, "don't you remember" negate nothing.
_FRAME_QUESTION = re.compile(
    r"是不是|有没有|会不会|能不能|记不记得|喜不喜欢|爱不爱|吃不吃|喝不喝|don['’]t you|didn['’]t i", re.IGNORECASE
)


def _names(text: str, needles: tuple[Needle, ...]) -> tuple[str, ...]:
    """Of what the question names, what nobody but a person is called."""
    known = [wanted.text for wanted in needles if not wanted.same]
    found = (match for form in (_ABOUT_ZH, _ABOUT_EN) for match in form.finditer(text))
    called = [next(name for name in match.groups() if name) for match in found]
    return tuple(n for n in dict.fromkeys((*called, *_WHO_ZH.findall(text))) if n in known)


def _as_own(text: str, about: str) -> str:
    """What is asked of somebody else, asked as if it were of oneself, so that it falls into the same areas."""
    if not about:
        return text
    own = re.sub(rf"\b(?:does|do|did|is|was)\s+my (?:\w+ )?{re.escape(about)}\b", "do I", text, flags=re.IGNORECASE)
    return re.sub(rf"\bmy (?:\w+ )?{re.escape(about)}(?:['’]s)?\b", "my", own, flags=re.IGNORECASE)


def _areas(text: str, role: Role | None) -> tuple[Area, ...]:
    """Every area the question fits; the widest one, any stand at all, only beside no other."""
    if role is Role.ASSISTANT:
        return (AREAS["promise"],)
    found = [area for area in AREAS.values() if area.name != "promise" and area.asked.search(text)]
    if len(found) > 1:
        found = [area for area in found if area.name != "taste"]
    if any(area.name in _DIET for area in found):
        found = [area for area in found if area.name != "rules"]
    found.sort(key=lambda area: not area.asks)
    names = dict.fromkeys([*(area.name for area in found), *(name for area in found for name in area.along)])
    return tuple(AREAS[name] for name in names)


def _about(text: str) -> str:
    for match in _OF_KIN.finditer(text):
        if not _HAVING.search(text[: match.start(match.lastgroup or 0)].rstrip()):
            return next(kin for kin in match.groupdict().values() if kin)
    return ""


def _spoken(text: str, areas: tuple[Area, ...]) -> str:
    """The words that told the areas: they name nothing further."""
    told = (match.group() for area in areas if area.single or area.asks for match in area.asked.finditer(text))
    return fold(" ".join(told))


def _needles(text: str, now: datetime, about: str, spoken: str = "", short: bool = False) -> tuple[Needle, ...]:
    """What is left when the frame of the question, its dates and whom it asks of are taken out. One character alone is
    a name only where yes or no is asked: 我养蛇吗."""
    plain = _without_dates(_WINDOW_MARKS.sub(" ", text), now)
    if about:
        plain = re.sub(rf"{re.escape(about)}(?:['’]s)?", " ", plain, flags=re.IGNORECASE)
    found: dict[str, Needle] = {}
    for word, rest in _named(plain):
        plain = rest
        found[fold(word)] = needle(word)
    for run, word in pieces(plain):
        for part in _PARTS.sub(" ", _FRAME_ZH.sub(" ", run)).split() if run else ():
            wanted = needle(part.strip(_EDGES))
            if wanted.same or (len(wanted.text) > (not short) and fold(wanted.text) not in spoken):
                found.setdefault(fold(wanted.text), wanted)
        told = fold(word) in spoken.split() and not (word[:1].isupper() and not text.startswith(word))
        if word and word_number(word) not in _FRAME_EN and not word.isdigit() and not told:
            found.setdefault(fold(word), needle(word))
    return tuple(found.values())


def _named(plain: str) -> Iterator[tuple[str, str]]:
    """Known words first, the longest before the others, so that no part of one is taken for the frame."""
    for word in NAMED:
        if fold(word) in _FRAME_WORDS:
            continue
        form = rf"(?<![A-Za-z]){re.escape(word)}(?:s|es)?(?![A-Za-z])" if word.isascii() else re.escape(word)
        if match := re.search(form, plain, re.IGNORECASE):
            plain = plain[: match.start()] + " " + plain[match.end() :]
            yield match.group(), plain


def _without_dates(text: str, now: datetime) -> str:
    for dated in reversed(dates.find(text, now)):
        text = f"{text[: dated.start]} {text[dated.end :]}"
    return text


def _either(text: str, now: datetime, about: str) -> tuple[Needle, ...]:
    """The two sides of 咖啡还是茶, "night shifts or day shifts": what each names that the other does not."""
    match = _FORMS["either"].search(text)
    if match is None:
        return ()
    if match["a"]:
        left, right = ([n.text for n in _needles(side, now, about)] for side in (match["a"], match["b"]))
    else:
        left, right = (
            [w for w in side.split() if word_number(w) not in STOP_WORDS] for side in (match["c"], match["d"])
        )
    first = next((word for word in reversed(left) if fold(word) not in map(fold, right)), "")
    second = next((word for word in right if fold(word) not in map(fold, left)), "")
    return (needle(first), needle(second)) if first and second else ()
