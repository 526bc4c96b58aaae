"""From findings to an answer (003 §5): the least that is needed, every point with the words it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mnemon.contracts.recall import Evidence, Item, MemoryView, Shelf, Window
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role
from mnemon.logic import dates
from mnemon.logic.language import language_of
from mnemon.logic.recall.adjudicating import Finding
from mnemon.logic.recall.fit import Fit
from mnemon.logic.recall.meaning import OF_ONESELF, bids
from mnemon.logic.recall.moves import Case
from mnemon.logic.recall.saying import EARNEST, Saying
from mnemon.logic.recall.tables import HABITS, LASTING, STANDS, load, standings
from mnemon.logic.rules.tables import BOOKS

_TELLING = load("telling")
_STANDINGS = standings()
_MOST_ITEMS = 8
_MOST_SUPPORT = 3
_MOST_OF = {"project": 2, "promise": 1}
_LONGEST = {"zh": 60, "en": 160}
_MOST_OF_A_MESSAGE = 2
# About so many points were right of the people for development: where area or words leave no doubt, and else.
_SURE, _LIKELY, _UNCERTAIN = 0.9, 0.7, 0.4
_NO_DOUBT = 0.8
_OF_ME = re.compile(r"我|(?:i|my|we)\b", re.IGNORECASE)
_MUST = re.compile(r"必须|只能|不能|不得|\b(?:must|can['’]t|cannot|only|need)\b", re.IGNORECASE)


def chosen(case: Case) -> list[Finding]:
    """The findings worth telling: what a message says of one matter is one, and no more than the question can want."""
    merged: list[Finding] = []
    for finding in case.findings:
        at = next((n for n, other in enumerate(merged) if _one_telling(other, finding)), None)
        if at is None:
            merged.append(finding)
        else:
            first, second = sorted((merged[at], finding), key=lambda f: (f.status == "settled", not f.lead.tells))
            merged[at] = replace(first, support=(*first.support, *second.support))
    most = _MOST_OF.get(case.asked.area.name, _MOST_ITEMS) if case.asked.area else _MOST_ITEMS
    return merged[:most]


def _one_telling(a: Finding, b: Finding) -> bool:
    """One sentence, or a message that answers as a whole: what its clauses name does not tell them apart."""
    if a.lead.message.message_id != b.lead.message.message_id:
        return False
    return a.lead.saying.sentence == b.lead.saying.sentence or not (a.lead.tells and b.lead.tells)


def view(case: Case, findings: Sequence[Finding]) -> MemoryView:
    shelves: dict[Shelf, list[Item]] = {"preferences": [], "profile": [], "constraints": []}
    for finding in findings:
        shelves[_shelf(case, finding)].append(_item(case, finding))
    return MemoryView(**{name: tuple(items) for name, items in shelves.items()})


def _shelf(case: Case, finding: Finding) -> Shelf:
    """By what was said: an order binds, a taste is a preference, the rest is who somebody is. Where the words leave it
    open, by what was asked."""
    lead, asked = finding.lead, case.asked
    if finding.status == "uncertain" and asked.yes_no and STANDS.search(lead.saying.whole):
        return "preferences"
    if (lead.saying.who and not lead.saying.named) or asked.of_project or asked.of_schedule or "when" in asked.wants:
        return "constraints" if bids(lead.saying, alone=True) and not lead.saying.who else "profile"
    text = lead.saying.whole
    if lead.area is not None and lead.area.single and lead.area is asked.area:
        return lead.area.shelf
    if bids(lead.saying, alone=bool(asked.wants)):
        return "preferences" if lead.area is not None and lead.area.name == "format" else "constraints"
    if asked.area is not None and asked.area.asks and not OF_ONESELF.search(text):
        return asked.area.shelf
    if lead.area is not None and not lead.area.asks:
        return lead.area.shelf
    of_taste = any(area.shelf == "preferences" and area.about.search(text) for area in asked.areas[:1])
    if asked.wish or of_taste or STANDS.search(text) or HABITS.search(text):
        return "preferences"
    bound = asked.area is not None and asked.area.shelf == "constraints"
    bound = bound and (not _OF_ME.match(text) or _MUST.search(text) is not None)
    return "constraints" if bound else "profile"


def _item(case: Case, finding: Finding) -> Item:
    lead = finding.lead
    repeated = len({fit.message.message_id for fit in finding.support}) - 1
    return Item(
        statement=stated(finding),
        status=finding.status,
        confidence=min(_confidence(finding) + 0.05 * repeated, 0.95),
        evidence=_ids(_supporting(finding)),
        against=tuple(id_ for id_ in _ids(finding.against) if id_ not in _ids(_supporting(finding))),
        reason=finding.reason,
        note=_note(case, finding),
        since=lead.message.ts if finding.status == "changed" and not finding.past else "",
        topic=case.topic,
    )


def _confidence(finding: Finding) -> float:
    if finding.status == "uncertain":
        return _UNCERTAIN
    return _SURE if finding.lead.area is not None or finding.lead.relevant >= _NO_DOUBT else _LIKELY


def _supporting(finding: Finding) -> list[Fit]:
    """The lead first, then who else says so, each message once."""
    by_message = {fit.message.message_id: fit for fit in reversed([finding.lead, *finding.support])}
    rest = [fit for fit in finding.support if by_message[fit.message.message_id] is fit and fit is not finding.lead]
    return [finding.lead, *rest[: _MOST_SUPPORT - 1]]


def _ids(fits: Iterable[Fit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fit.message.message_id for fit in fits))


def _note(case: Case, finding: Finding) -> str:
    language = case.asked.language
    notes = _TELLING["note"][language]
    if finding.reason == "unclear":
        if finding.lead.saying.standing == "over":
            return str(notes["past"])
        return str(notes["unclear_both"] if finding.against else notes["unclear"])
    if finding.reason == "context":
        why = dict.fromkeys(_STANDINGS[language][fit.saying.standing] for fit in finding.against)
        return str(notes["context"]).format("、".join(why) if language == "zh" else ", ".join(why))
    return str(notes[finding.reason]) if finding.reason else ""


def stated(finding: Finding) -> str:
    """What the lead says, and what else of its message answers: in its own words, dates made plain."""
    lead = finding.lead.saying
    here = [fit.saying for fit in finding.support if _same(fit.saying, lead)]
    if finding.lead.whole:
        spans = [_all_of(lead.message)]
    elif _short(finding):
        spans = [(s.start, s.end) for s in [lead, *here] if s.sentence == lead.sentence]
    else:
        spans = [lead.sentence, *(s.sentence for s in here)]
    start, end = min(a for a, _ in spans), max(b for _, b in spans)
    if end - start > _MOST_OF_A_MESSAGE * _LONGEST[language_of(lead.whole)]:
        start, end = lead.sentence if not _short(finding) else (lead.start, lead.end)
    text = _as_statement(replace(lead, start=start, end=end))
    return f"{finding.lead.topic}: {text}" if finding.lead.topic else text


def _all_of(message: Message) -> tuple[int, int]:
    whole = message.content.strip()
    start = message.content.find(whole)
    return start, start + len(whole)


def _short(finding: Finding) -> bool:
    """A taste or an allergy is its clause; what one is, does or plans needs the sentence, if that is not too long."""
    lead, area = finding.lead.saying, finding.lead.area
    start, end = lead.sentence
    if end - start > _LONGEST[language_of(lead.whole)]:
        return True
    return area is not None and not area.asks and (area.shelf == "preferences" or area.name == "allergy")


def _same(a: Saying, b: Saying) -> bool:
    return a.message.message_id == b.message.message_id


def _as_statement(said: Saying) -> str:
    """Chinese leaves "I" out: 不吃辣. What a date meant on the day it was said stands beside it."""
    words = said.message.content[said.start : said.end]
    book = BOOKS[language_of(words)]
    if book.language == "zh":
        lead = book.lead.match(words)
        words = words[lead.end() :] if lead and lead.end() < len(words) else words
        words = re.sub(r"^我(?=[^们的家])", "", words) if said.message.role == Role.USER and not said.who else words
    return words + _meant(words, said)


def _meant(words: str, said: Saying) -> str:
    """The days that "tomorrow" and 下周三 meant, in brackets; habits and standing orders mean no day."""
    if HABITS.search(words) or LASTING.search(words):
        return ""
    found = [d for d in dates.find(words, said.said_at, said.whole) if d.relative and d.precision == "day"]
    days = ", ".join(dict.fromkeys(d.begins.isoformat() for d in found))
    return f" ({days})" if days else ""


def evidence(case: Case, findings: Sequence[Finding]) -> tuple[Evidence, ...]:
    """One cut a message, in the order of the items; what is for a point before what is against it."""
    why = _TELLING["evidence"][case.asked.language]
    found: dict[str, Evidence] = {}
    for finding in findings:
        for side, fits in (("for", _supporting(finding)), ("against", finding.against)):
            for fit in fits:
                found.setdefault(fit.message.message_id, _cut(case, fit, why[side]))
    return tuple(found.values())


def _cut(case: Case, fit: Fit, why: str) -> Evidence:
    """The message; of a long one the sentence, or as much of it around the clause as may be shown."""
    message, said, longest = fit.message, fit.saying, case.settings.evidence_length
    start, end = _all_of(message)
    if end - start > longest:
        start, end = said.sentence
    if end - start > longest:
        start, end = said.start, min(said.end, said.start + longest)
    standing = "" if said.standing in (*EARNEST, "request") else _STANDINGS[case.asked.language][said.standing]
    return Evidence(
        message_id=message.message_id,
        session_id=message.session_id,
        ts=message.ts,
        role=Role(message.role),
        speaker=message.speaker,
        content=message.content[start:end],
        start=start,
        end=end,
        why=f"{why}{_colon(case)}{standing}" if standing else why,
        neighbors=tuple(dict.fromkeys((*fit.also, *case.around.get(message.message_id, ())))),
    )


def _colon(case: Case) -> str:
    return "：" if case.asked.language == "zh" else ": "


def answer(case: Case, findings: Sequence[Finding], window: Window, role: str) -> str:
    words = _TELLING["answer"][case.asked.language]
    if not findings:
        return str(words["unknown"]).format(
            window=_window(words, window), role=words["user" if role else "anyone"], topic=case.topic
        )
    if len(findings) == 1:
        return _sentence(case, findings[0])
    lines = [words["line"].format(statement=stated(f), day=_day(f.lead.message)) for f in findings]
    return "\n".join([words["many"], *lines])


def _sentence(case: Case, finding: Finding) -> str:
    words, lead = _TELLING["answer"][case.asked.language], finding.lead
    before = finding.against[0].saying if finding.against else None
    told = {"words": f"“{_quote(lead.saying)}”", "day": _day(lead.message), "prefix": _prefix(case, finding)}
    if finding.status == "uncertain":
        form = words["uncertain"] if before else words["uncertain_alone"]
        told["words"] = _quote(lead.saying) if before else told["words"]
    elif finding.status == "changed":
        form = words["past" if finding.past else "changed"] if before else words["changed_alone"]
    else:
        form = words["assistant"] if lead.message.role == Role.ASSISTANT else words["one"]
    text = str(form).format(**told, before=_quote(before) if before else "")
    return text[:1].upper() + text[1:]


def _prefix(case: Case, finding: Finding) -> str:
    """Yes or no, where the question can be answered so."""
    asked, words = case.asked, _TELLING["answer"][case.asked.language]
    if not asked.yes_no or asked.either or finding.lead.message.role != Role.USER:
        return ""
    return str(words["yes"] if finding.lead.against == asked.against else words["no"])


def _quote(said: Saying) -> str:
    return said.message.content[slice(*said.sentence)]


def _day(message: Message) -> str:
    return message.ts[:10]


def _window(words: dict[str, str], window: Window) -> str:
    since, until = window.since[:10], window.until[:10]
    if not since and not until:
        return words["window_open"]
    return words["window_both" if until else "window_since"].format(since=since or "…", until=until)
