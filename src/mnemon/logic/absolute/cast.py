"""Who is who: whom a pronoun means in a text, and which place 这里 and "there" mean."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, NamedTuple

from mnemon.contracts.claims import Language
from mnemon.logic.absolute.gate import Mark
from mnemon.logic.absolute.mentions import Gender, Mention, bare, mentions, safe
from mnemon.logic.absolute.setting import FORMS, WORDS, Setting, Speaker

_UNKNOWN: dict[Language, dict[str, str]] = WORDS["unknown"]
# A text that begins by naming somebody speaks to them.
_ADDRESSED = re.compile(r"\s*(?:@(?P<at>[\w.·-]+)|(?P<name>[A-Za-z]+|[\u4e00-\u9fff]{2,4}?)(?:\s*[,，]|(?=[你您])))")
_TOLD = re.compile(rf"(?:{WORDS['reading']['zh']['told']}|\\b(?:{WORDS['reading']['en']['told']})\\s+)$", re.IGNORECASE)
_TOGETHER = re.compile(r"\s*(?:和|与|跟|、|,|and|&)\s*(?:(?:his|her|my|your)\s+[a-z]+\s+)?")


class Called(NamedTuple):
    """How somebody or something is called; `known` is false where that only says that nobody knows."""

    name: str
    plural: bool = False
    known: bool = True


class Cast:
    """Everybody and everything a text can point at."""

    def __init__(self, text: str, setting: Setting, speaker: Speaker) -> None:
        self._text, self._setting, self._speaker = text, setting, speaker

    @cached_property
    def _mentions(self) -> list[Mention]:
        return mentions(self._text, self._setting, self._speaker)

    def named(self, role: Speaker, language: Language) -> str:
        name = self._setting.bot if role == "bot" else self._setting.sender
        return safe(name, language) or FORMS[language][role]

    def group(self, form: Literal["group", "members", "in_group"], language: Language) -> str:
        return FORMS[language][form].format(bare(self._setting.group))

    def who(self, mark: Mark, who: str) -> Called:
        """Whom a pronoun means, by the group it is listed in."""
        language, group = mark.language, self._setting.group
        if who in ("me", "my_firm"):
            return Called(self.named(self._speaker, language))
        if who == "sender":
            return Called(self.named("sender", language))
        if who == "you" or (who == "all_of_you" and not group):
            return Called(self._hearer(language))
        if who in ("us", "all_of_you") and group:
            return Called(self.group("members", language), plural=True)
        if who == "two_of_us" and group:
            return self._both(self.named(self._speaker, language), _UNKNOWN[language]["someone"], language, known=False)
        if who in ("us", "two_of_us", "you_and_me"):
            return self._both(self.named(self._speaker, language), self._hearer(language), language)
        return self._third(mark, who)

    def place(self, mark: Mark) -> Called:
        """The place of the chat, or the one named before."""
        if mark.role == "here":
            if self._setting.location:
                return Called(safe(self._setting.location, mark.language))
            if self._setting.group:
                return Called(self.group("in_group", mark.language))
        elif (found := self._latest(mark.start, "place")) is not None:
            return Called(found.name)
        return self._unknown("place", mark.language)

    def ends_here(self, kind: Literal["person", "place"], end: int) -> bool:
        """深圳|那边, 阿杰|那边: is one named right before?"""
        return any(mention.kind == kind and mention.end == end for mention in self._mentions)

    def _hearer(self, language: Language) -> str:
        if (match := _ADDRESSED.match(self._text)) is not None:
            name = match["at"] or match["name"]
            if match["at"] or name in self._setting.others:
                return safe(name, language)
        return self.named("bot" if self._speaker == "sender" else "sender", language)

    def _both(self, one: str, two: str, language: Language, known: bool = True) -> Called:
        return Called(FORMS[language]["both"].format(one, two), plural=True, known=known)

    def _third(self, mark: Mark, who: str) -> Called:
        language, others = mark.language, self._setting.others
        if who in ("it", "things"):
            things = {m.name for m in self._mentions if m.kind == "thing" and m.end <= mark.start}
            # Which of several is meant would be a guess.
            return Called(things.pop()) if who == "it" and len(things) == 1 else self._unknown(who, language)
        if who in ("they", "two_of_them"):
            if (people := self._people(mark.start)) is not None:
                return people
            if language == "zh" and len(others) > 1:
                return Called(self._joined(others[-2:] if who == "two_of_them" else others, language), plural=True)
            # In English one person can be "they", if hardly "them".
            if language == "zh" or mark.role == "they_object":
                return self._unknown(who, language)
        if (one := self._latest(mark.start, "person", who)) is not None:
            return Called(self._told(one))
        if who == "they":
            return self._unknown(who, language)
        if others:
            return Called(safe(others[-1], language))
        return Called(self.named("sender", language)) if self._is_told(mark) else self._unknown(who, language)

    def _is_told(self, mark: Mark) -> bool:
        """告诉他, "reminded her": whom a bot speaks to is the one it talks with."""
        told = _TOLD.search(self._text, 0, mark.start) is not None
        return told and self._speaker == "bot" and bool(self._setting.sender)

    def _unknown(self, who: str, language: Language) -> Called:
        who = "they" if who == "two_of_them" else who
        return Called(_UNKNOWN[language][who], plural=who in ("they", "things"), known=False)

    def _people(self, before: int) -> Called | None:
        """The latest people named together: 阿杰和小雨, "my parents"."""
        found: Called | None = None
        run: list[Mention] = []
        for mention in self._mentions:
            if mention.end > before:
                break
            if mention.kind == "people":
                found = Called(self._told(mention), plural=True)
            elif mention.kind == "person":
                together = run and _TOGETHER.fullmatch(self._text, run[-1].end, mention.start)
                run = [*run, mention] if together else [mention]
                if len(run) > 1:
                    language: Language = "en" if self._text[run[0].end :].lstrip().startswith(("and", "&")) else "zh"
                    found = Called(self._joined(tuple(self._told(m) for m in run), language), plural=True)
        return found

    def _joined(self, names: tuple[str, ...], language: Language) -> str:
        *first, last = (name if name[:1] in "「“" else safe(name, language) for name in names)
        return FORMS[language]["both"].format(FORMS[language]["list"].join(first), last)

    def _latest(self, before: int, kind: str, gender: str = "") -> Mention | None:
        unfit: Gender = "she" if gender == "he" else "he" if gender == "she" else ""
        for mention in reversed(self._mentions):
            if mention.kind == kind and mention.end <= before and (not unfit or mention.gender != unfit):
                return mention
        return None

    def _told(self, mention: Mention) -> str:
        """The name of a mention, with its owner's where it has one; of us, the speaker's."""
        if (owner := mention.owner) is None:
            return mention.name
        who = owner.role.removesuffix("_own").removesuffix("_either")
        name = self.who(owner, "me" if who == "us" else who).name
        return f"{name}的{mention.name}" if owner.language == "zh" else f"{name}'s {mention.name}"
