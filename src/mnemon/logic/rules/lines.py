"""What a line about somebody is about: read as if they had said it themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnemon.logic import dates
from mnemon.logic.rules.filing import dedup_key, entity_names
from mnemon.logic.rules.reading import readings
from mnemon.logic.rules.tables import TOPICS
from mnemon.logic.text import STOP_WORDS, word_number

_GROUP = re.compile("|".join(TOPICS["group"]["words"]), re.IGNORECASE)
_USER = re.compile("|".join(TOPICS["group"]["user"]), re.IGNORECASE)
# At the beginning of a sentence a capital says nothing.
_NAMES = re.compile(r"(?<![\w'])(?<!^)(?<![.!?。！？] )[A-Z][\w+#.-]*[\w+#](?: [A-Z][\w+#-]*[\w+#])*")
_FORMS = {"is": "am", "has": "have", "does": "do", "was": "was", "isn't": "am not", "hasn't": "haven't"}
_MOST_NAMES = 8
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class LineTopic:
    """`key` is the slot only one line can hold at a time, "" where several can; `names` are what it speaks of."""

    key: str = ""
    names: tuple[str, ...] = ()


def topic_of(line: str, name: str) -> LineTopic:
    """A line about somebody called `name`."""
    said = _as_said(dates.without(line).replace("  ", " "), name)
    found = readings(said)
    key = next((k for reading in found if (k := dedup_key(reading))), "")
    named = [n for reading in found for n in entity_names(reading)]
    named += [n for n in _NAMES.findall(line) if n != name and word_number(n.lower()) not in STOP_WORDS]
    names = tuple(dict.fromkeys(n for n in named if n and n != name))
    return LineTopic(key[:_LONGEST], names[:_MOST_NAMES])


def is_of_group(line: str, name: str) -> bool:
    """It speaks of all, and does not begin with the one who spoke."""
    begins = bool(name) and line.startswith(name)
    return bool(_GROUP.search(line)) and not begins and not _USER.match(line)


def _as_said(line: str, name: str) -> str:
    """`Null likes tea` as `I like tea`, 用户住在杭州 as 我住在杭州."""
    called = re.escape(name) if name else "(?!)"
    head = re.match(rf"(?:{called}|the user|用户)(?:['’]s\b)?\s*", line, re.IGNORECASE)
    if head is None:
        return line
    rest = line[head.end() :]
    possessive = head[0].rstrip().endswith(("'s", "’s"))
    if not re.match(r"[a-zA-Z]", rest):
        return f"我{rest}"
    if possessive:
        return f"My {rest}"
    verb, _, more = rest.partition(" ")
    return f"I {_FORMS.get(verb, _bare(verb))} {more}".rstrip()


def _bare(verb: str) -> str:
    """The verb as I would say it."""
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    if verb.endswith(("sses", "shes", "ches", "xes", "oes")):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb
