"""A sentence that says the same whoever reads it, wherever and whenever: names for pronouns, dates, places."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnemon.logic import dates
from mnemon.logic.absolute.cast import Called, Cast
from mnemon.logic.absolute.english import Edit, agreement, begun, behind, is_object, is_subject
from mnemon.logic.absolute.gate import Mark, findings, marks
from mnemon.logic.absolute.mentions import places_of, safe
from mnemon.logic.absolute.setting import FORMS, WORDS, Setting, Speaker

_ZH, _EN = WORDS["reading"]["zh"], WORDS["reading"]["en"]
_OWNED, _OURS = re.compile(_ZH["owned"]), re.compile(_ZH["ours"])
_OUR_GROUP = re.compile(_ZH["our_group"])
_SIDE = re.compile("[这那][边儿里]")
_HERE = ("这里", "这儿")
_OUR_GROUP_EN = re.compile(rf"\s+{_EN['our_group']}\b", re.IGNORECASE)
_OURS_EN = re.compile(rf"\s+{_EN['ours']}\b")
_PREPOSITION, _MOTION = re.compile(_EN["prepositions"], re.IGNORECASE), re.compile(_EN["motion"], re.IGNORECASE)
_EMPHATIC, _ALONE = re.compile(_EN["emphatic_after"], re.IGNORECASE), re.compile(r"\bby\s+$", re.IGNORECASE)
# 我们公司 and 你们公司 are one person's.
_ONE_OF = {"us": "me", "all_of_you": "you"}
_ROUNDS = 3  # what is written may stand beside words that only then are read as one


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The text, and the words of which it could only be said that nobody knows whom or what they mean."""

    text: str
    unresolved: tuple[str, ...] = ()


def absolute(text: str, setting: Setting, speaker: Speaker = "bot") -> Rewritten:
    """The text without pronouns, relative times and relative places; `speaker` says whose 我 and "I" it is. Quotes,
    code, addresses and everything else stay as they are."""
    unresolved: list[str] = []
    written = _with_quoted_names(text, setting)
    for _ in range(_ROUNDS):
        written = dates.absolutise(written, setting.said_at)
        written = _Rewriting(written, setting, speaker, unresolved).text()
        if not findings(written):
            break
    return Rewritten(written, tuple(unresolved))


def _with_quoted_names(text: str, setting: Setting) -> str:
    """A name that looks like a pronoun or a date is put in quotes, which nothing touches."""
    for name in (setting.sender, setting.bot, setting.group, *setting.others):
        found = findings(name)
        if not found or found[0].text == name:
            continue
        quoted = [match.span() for match in dates.QUOTED.finditer(text)]
        for start, end in reversed(places_of(name, text)):
            if all(end <= a or b <= start for a, b in quoted):
                text = f"{text[:start]}{safe(name, 'zh')}{text[end:]}"
    return text


class _Rewriting:
    """One pass over a text."""

    def __init__(self, text: str, setting: Setting, speaker: Speaker, unresolved: list[str]) -> None:
        self._text, self._setting, self._speaker = text, setting, speaker
        self._cast = Cast(text, setting, speaker)
        self._unresolved = unresolved

    def text(self) -> str:
        edits: list[Edit] = []
        for mark in marks(self._text):
            for edit in self._edits(mark):
                if all(edit.end <= other.start or other.end <= edit.start for other in edits):
                    edits.append(edit)
        out = self._text
        for start, end, written in sorted(edits, reverse=True):
            out = f"{out[:start]}{dates.gap(out[:start], written)}{written}{dates.gap(written, out[end:])}{out[end:]}"
        return out

    def _edits(self, mark: Mark) -> list[Edit]:
        if mark.kind == "user":
            return self._user(mark)
        if mark.kind == "time":
            return [self._time(mark)]
        if mark.kind == "place":
            return [self._place_zh(mark) if mark.language == "zh" else self._place_en(mark)]
        return self._pronoun_zh(mark) if mark.language == "zh" else self._pronoun_en(mark)

    def _noted(self, called: Called, mark: Mark) -> str:
        if not called.known:
            self._unresolved.append(self._text[mark.start : mark.end])
        return called.name

    def _user(self, mark: Mark) -> list[Edit]:
        """用户 is named in the bot's words, unless the name stands there."""
        name = self._setting.sender
        if self._speaker != "bot" or not name or self._text[mark.end :].lstrip(" 「“").startswith(name):
            return []
        return [Edit(mark.start, mark.end, self._cast.named("sender", mark.language))]

    def _time(self, mark: Mark) -> Edit:
        form = FORMS[mark.language][mark.role]
        if form.startswith("at ") and behind(_PREPOSITION, self._text, mark.start):
            form = form.removeprefix("at ")
        written = form.format(minute=self._setting.minute, day=self._setting.day)
        return Edit(mark.start, mark.end, begun(written, self._text, mark.start))

    def _place_zh(self, mark: Mark) -> Edit:
        """深圳那边 is 深圳, 阿杰那边 is where 阿杰 is."""
        if _SIDE.match(self._text, mark.start):
            if self._cast.ends_here("place", mark.start):
                return Edit(mark.start, mark.end, "")
            if self._cast.ends_here("person", mark.start):
                return Edit(mark.start, mark.end, FORMS["zh"]["side"].format(""))
        return Edit(mark.start, mark.end, self._noted(self._cast.place(mark), mark))

    def _place_en(self, mark: Mark) -> Edit:
        name = self._noted(self._cast.place(mark), mark)
        if behind(_MOTION, self._text, mark.start):
            name = f"to {name}"
        elif not behind(_PREPOSITION, self._text, mark.start):
            name = f"in {name}"
        return Edit(mark.start, mark.end, begun(name, self._text, mark.start))

    def _pronoun_zh(self, mark: Mark) -> list[Edit]:
        text, start, end = self._text, mark.start, mark.end
        if mark.role == "this_one":
            return [self._this_one(mark)]
        if mark.role == "us" and (group := _OUR_GROUP.match(text, end)) is not None and self._setting.group:
            return [Edit(start, group.end(), self._cast.group("group", "zh"))]
        ours = mark.role in _ONE_OF and _OURS.match(text, end) is not None
        name = self._noted(self._cast.who(mark, _ONE_OF[mark.role] if ours else mark.role), mark)
        if ours or (mark.role in ("me", "you", "he", "she") and _OWNED.match(text, end)):
            name += "的"
        if mark.role == "my_firm":
            name = FORMS["zh"]["firm"].format(name)
        if mark.role == "you" and text.endswith(name, 0, start):
            return [Edit(start, end, "")]  # 阿杰你…
        side = _SIDE.match(text, end)
        if side is not None and not (side[0] in _HERE and self._setting.location):  # 告诉他|这里下雨
            return [Edit(start, side.end(), FORMS["zh"]["side"].format(name))]
        return [Edit(start, end, name)]

    def _this_one(self, mark: Mark) -> Edit:
        """这位同学 is somebody of whom no more is known than what they are; 这位用户 is who the bot talks with."""
        if self._text.startswith("用户", mark.end) and self._speaker == "bot":
            return Edit(mark.start, mark.end + 2, self._cast.named("sender", "zh"))
        return Edit(mark.start, mark.end, self._noted(Called(WORDS["unknown"]["zh"]["this_one"], known=False), mark))

    def _pronoun_en(self, mark: Mark) -> list[Edit]:
        text, start, end = self._text, mark.start, mark.end
        who, _, case = mark.role.rpartition("_")
        if case in ("is", "has"):
            name = self._cast.who(mark, who).name
            return [Edit(start, end, f"{begun(name, text, start)} {case}")]
        if case == "either" and who == "you":
            case = "subject" if is_subject(text, start, end) else "object"
        elif case == "either":
            case = "object" if is_object(text, end) else "own"
        if case == "own" and who == "us" and (group := _OUR_GROUP_EN.match(text, end)) and self._setting.group:
            return [Edit(start, group.end(), begun(self._cast.group("group", "en"), text, start))]
        if case == "own" and who == "us" and _OURS_EN.match(text, end):
            who = "me"
        called = self._cast.who(mark, who)
        if case == "self":
            return [self._self(mark, called)]
        name = begun(self._noted(called, mark), text, start)
        if case == "own":
            return [Edit(start, end, f"{name}'s")]
        if case == "object":
            return [Edit(start, end, name)]
        third = who in ("he", "she", "it", "person")
        return [Edit(start, end, name), *agreement(text, start, end, called.plural, third)]

    def _self(self, mark: Mark, called: Called) -> Edit:
        """Alone, where it is "by myself"; in person, where it is "did it myself"."""
        if (alone := behind(_ALONE, self._text, mark.start)) is not None:
            return Edit(alone.start(), mark.end, "alone")
        emphatic = behind(_EMPHATIC, self._text, mark.start)
        return Edit(mark.start, mark.end, "personally" if emphatic else self._noted(called, mark))
