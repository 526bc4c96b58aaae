"""How results look in a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import Rejected
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.reports import Defect, Degraded
from mnemon.contracts.results import Message, MessageHit
from mnemon.surfaces.wire import as_json

console = Console()
errors = Console(stderr=True)

_WORDS = "words, as they were said"


def print_json(value: Any) -> None:
    print(as_json(value, indent=2).decode(), flush=True)  # a service says where it is and goes on


def print_error(error: MnemonError, as_json: bool) -> None:
    if as_json:
        print_json(error.envelope())
    else:
        errors.print(Text.assemble(("error: ", "bold red"), error.message))


def print_degraded(degraded: tuple[Degraded, ...]) -> None:
    for item in degraded:
        errors.print(Text.assemble(("note: ", "yellow"), f"{item.what}: {item.why}"))


def print_defects(title: str, defects: list[Defect], style: str) -> None:
    if defects:
        table = Table("kind", "where", "what", title=title, title_style=style)
        for defect in defects[:200]:
            table.add_row(defect.kind, Text(defect.where), Text(defect.detail))
        console.print(table)


def _words_table(*columns: str) -> Table:
    """What was said is never cut off, also not where a language writes no spaces."""
    table = Table(show_lines=True)
    for name in columns:
        table.add_column(name, overflow="fold", ratio=1 if name == _WORDS else None)
    return table


def _quote(message: Message, spans: tuple[tuple[int, int], ...] = ()) -> Text:
    words = Text(message.content)
    for start, end in spans:
        words.stylize("bold yellow", start, end)
    return words


def _place(message: Message) -> Text:
    known = message.meta.get("timestamp_iso") is not None
    when = message.ts[:16].replace("T", " ") if known else f"archived {message.ts[:10]}"
    return Text(f"{message.session_id} · {message.meta['turn_id']}\n{when}")


def print_hits(hits: tuple[MessageHit, ...]) -> None:
    table = _words_table("score", "said by", _WORDS, "session · turn, time")
    for hit in hits:
        message = hit.message
        table.add_row(f"{hit.score:.3f}", Text(message.speaker), _quote(message, hit.highlights), _place(message))
    console.print(table if hits else "nothing found")


def print_messages(messages: tuple[Message, ...]) -> None:
    table = _words_table("said by", _WORDS, "session · turn, time", "message id")
    for message in messages:
        table.add_row(Text(message.speaker), _quote(message), _place(message), message.message_id)
    console.print(table if messages else "no messages")


def print_claims(claims: Sequence[Claim]) -> None:
    """What is remembered, and the words that prove it."""
    table = Table(show_lines=True)
    for name in ("what is remembered", "the words that prove it", "shelf · life", "claim id"):
        table.add_column(name, overflow="fold", ratio=None if name == "claim id" else 1)
    for claim in claims:
        table.add_row(_statement(claim), _proof(claim), _life(claim), claim.claim_id)
    console.print(table if claims else "no claims")


def _statement(claim: Claim) -> Text:
    told = Text(claim.statement, "bold" if claim.state == "active" else "dim")
    if claim.superseded_by and claim.valid_to:
        told.append(f"\nheld from {claim.valid_from:%Y-%m-%d} to {claim.valid_to:%Y-%m-%d}", "yellow")
    elif claim.state != "active":
        told.append(f"\n{claim.state}", "yellow")
    return told


def _proof(claim: Claim) -> Text:
    quotes = [f"“{span.text_exact}”\n{claim.session_id} · {span.turn_id}" for span in claim.spans]
    return Text("\n".join(quotes))


def _life(claim: Claim) -> Text:
    until = f"until {claim.expires_at:%Y-%m-%d}" if claim.expires_at else claim.governance.forget_policy.value
    return Text(f"{claim.shelf.value} ({claim.kind.value})\n{until}, {claim.governance.evidence_level.value}")


def print_rejected(rejected: Sequence[Rejected]) -> None:
    for item in rejected[:20]:
        console.print(f"  not kept: {item.text!r} ({item.reason})", markup=False, highlight=False)
