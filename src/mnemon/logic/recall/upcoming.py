"""What lies ahead: appointments, deadlines and things to do."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from mnemon.contracts.turns import parse_time
from mnemon.logic import dates
from mnemon.logic.recall.fit import Fit
from mnemon.logic.recall.saying import Saying
from mnemon.logic.recall.tables import BEHIND, DONE, HABITS, NOT_DONE
from mnemon.logic.recall.windows import Span

_TO_DO_DAYS = 14
_THIS_WEEK = 7
_SOON = timedelta(days=62)
_TO_COME = "will 要"
_MUST = re.compile(
    r"得(?=[把去交给办带订买])|必须|务必|之前(?:要|得)?|\b(?:need|have|has) to\b|\bmust\b", re.IGNORECASE
)
_TO_DO = ("remind", "need_by", "do_not_forget_to", "deadline_request", "set_for")


def upcoming(fit: Fit, period: Span | None, today: date) -> Fit | None:
    """The fit, if it lies ahead: dated from today on and in the period, or to be done and said lately."""
    said = fit.saying
    if DONE.search(said.text) and not NOT_DONE.search(said.text):
        return None
    at = parse_time(said.message.ts)
    found = days_of(said)
    if not found:
        days = (today - at.date()).days
        lately = days <= (_TO_DO_DAYS if period is None else _THIS_WEEK if period.begins <= today else 0)
        return fit if lately and (said.rule in _TO_DO or _MUST.search(said.text)) else None
    begins, ends = found[0].begins, found[0].ends
    if found[0].precision == "year":
        return None
    if ends <= at.date() and found[0].relative and found[0].precision == "day":
        # 这周五, said on a Sunday, of something to be done: the Friday to come.
        begins, ends = begins + timedelta(days=7), ends + timedelta(days=7)
    if period is None and begins > today + _SOON:
        return None
    if ends <= today or (period is not None and (ends <= period.begins or begins >= period.ends)):
        return None
    return replace(fit, due=begins)


def lies_ahead(said: Saying) -> bool:
    days = (d for d in days_of(said) if d.precision == "day")
    return any(d.ends > said.said_at.date() for d in days) and not HABITS.search(said.text)


def days_of(said: Saying) -> list[dates.Dated]:
    """The days a clause names. "I've got an appointment on March 13th" is no past, although it sounds like one."""
    at = said.said_at
    found = [d for d in dates.find(said.text, at) if d.precision != "time"]
    if found and not found[0].relative and found[0].ends <= at.date() and not BEHIND.search(said.text):
        found = [d for d in dates.find(said.text, at, _TO_COME) if d.precision != "time"]
    return found
