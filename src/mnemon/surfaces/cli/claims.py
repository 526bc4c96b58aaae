"""`mnemon claims | pending | forget | sweep`: what is known, who vouches for it, and how it ends."""

from __future__ import annotations

import sys

import click

from mnemon.contracts.claims import Claim
from mnemon.surfaces.cli.options import Place, Who, scoped, shared
from mnemon.surfaces.cli.output import console, print_claims, print_json

_limit = click.option("--limit", default=50, show_default=True, help="At most this many (500).")
_cursor = click.option("--cursor", help="Go on after an earlier page.")


@click.group()
def claims() -> None:
    """What is known, each sentence with the words it was drawn from."""


@claims.command("list")
@scoped
@click.option("--state", default="active", show_default=True, help="active, pending, superseded, expired or all.")
@click.option("--kind", help="fact, preference, task or rule.")
@click.option("--shelf", help="profile, preferences, entities, events, cases, patterns, skills, tasks or rules.")
@click.option("--session", help="Only this session.")
@_limit
@_cursor
@shared
def list_(
    who: Who,
    state: str,
    kind: str | None,
    shelf: str | None,
    session: str | None,
    limit: int,
    cursor: str | None,
    place: Place,
) -> None:
    """List claims, newest first."""
    with place.open() as memory:
        page = memory.claims(
            **who.named(),
            state=None if state == "all" else state,
            kind=kind,
            shelf=shelf,
            session_id=session,
            limit=limit,
            cursor=cursor,
        )
    _print(page.items, page.next_cursor, page, place)


@click.command()
@scoped
@_limit
@_cursor
@shared
def pending(who: Who, limit: int, cursor: str | None, place: Place) -> None:
    """List claims that wait for somebody to confirm or reject them."""
    with place.open() as memory:
        page = memory.pending(**who.named(), limit=limit, cursor=cursor)
    _print(page.items, page.next_cursor, page, place)


def _print(items: tuple[Claim, ...], cursor: str | None, page: object, place: Place) -> None:
    if place.as_json:
        print_json(page)
        return
    print_claims(items)
    if cursor:
        console.print(f"more: --cursor {cursor}", markup=False, highlight=False, soft_wrap=True)


@claims.command()
@click.argument("claim_id")
@scoped
@shared
def show(claim_id: str, who: Who, place: Place) -> None:
    """Show one claim from the archive, with everything that is known of it."""
    with place.open() as memory:
        found = memory.claim(**who.named(), claim_id=claim_id)
    _one(found, place)


@claims.command()
@click.argument("claim_id")
@scoped
@shared
def confirm(claim_id: str, who: Who, place: Place) -> None:
    """Let a pending claim become knowledge."""
    with place.open() as memory:
        found = memory.confirm(**who.named(), claim_id=claim_id)
    _one(found, place)


@claims.command()
@click.argument("claim_id")
@scoped
@shared
def reject(claim_id: str, who: Who, place: Place) -> None:
    """Take a claim away, wherever it stands."""
    with place.open() as memory:
        found = memory.reject(**who.named(), claim_id=claim_id)
    if place.as_json:
        print_json({"rejected": found})
    else:
        console.print(f"rejected: {found.statement}", markup=False, highlight=False)


@claims.command()
@click.argument("claim_id")
@click.argument("statement")
@click.option("--reason", default="", help="Why, for the record.")
@scoped
@shared
def correct(claim_id: str, statement: str, reason: str, who: Who, place: Place) -> None:
    """Put a claim in your own words; the evidence stays."""
    with place.open() as memory:
        found = memory.correct(**who.named(), claim_id=claim_id, statement=statement, reason=reason)
    _one(found, place)


def _one(claim: Claim, place: Place) -> None:
    if place.as_json:
        print_json(claim)
    else:
        print_claims([claim])


@click.command()
@click.option("--tenant", required=True, help="The tenant.")
@click.option("--user", help="The user.")
@click.option("--group", help="A group instead of a user.")
@click.option("--session", help="Only this session.")
@click.option("--claim", help="Only this claim, with the words it cites; its neighbours stay.")
@click.option("--keep-words", is_flag=True, help="With --claim: forget the claim and leave the words.")
@click.option("--everything", is_flag=True, help="The whole tenant.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
def forget(
    tenant: str,
    user: str | None,
    group: str | None,
    session: str | None,
    claim: str | None,
    keep_words: bool,
    everything: bool,
    yes: bool,
    place: Place,
) -> None:
    """Erase a claim, a session, a person or a tenant for good, look whether it is gone, and print a receipt.

    There is no way back. Cut off, the same command finishes it."""
    what = claim or session or user or group or f"everything of tenant {tenant}"
    if not yes and not click.confirm(f"Erase {what} for good?"):
        raise click.Abort
    with place.open() as memory:
        receipt = memory.forget(
            tenant,
            user,
            session_id=session,
            claim_id=claim,
            group_id=group,
            words=not keep_words,
            everything=everything,
        )
    if place.as_json:
        print_json(receipt)
    else:
        gone = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in receipt.removed.items()) or "nothing was there"
        console.print(f"forgotten: {receipt.what} {receipt.id}: {gone}", markup=False, highlight=False, soft_wrap=True)
        for uri in receipt.nodes_rewritten:
            console.print(f"  rewritten without it: {uri}", markup=False, highlight=False)
        looked = "looked at {files} files, {bytes} bytes, for {pieces} pieces of it".format(**receipt.scanned)
        console.print(f"  {looked}: {'found some' if receipt.left else 'found none'}", markup=False, highlight=False)
        for left in receipt.left:
            console.print(f"  STILL THERE: {left}", markup=False, highlight=False)
    sys.exit(0 if receipt.complete else 1)


@click.command()
@click.option("--tenant", help="Only this tenant. Default: all.")
@click.option("--trust-clock", is_flag=True, help="The clock is right, although it jumped.")
@shared
def sweep(tenant: str | None, trust_clock: bool, place: Place) -> None:
    """Take what is over out of sight, and away for good after its time of grace. The worker does this by itself."""
    with place.open() as memory:
        result = memory.sweep(tenant, trust_clock=trust_clock)
    if place.as_json:
        print_json(result)
        return
    console.print(
        f"out of sight: {result.claims_excluded} claims; "
        f"taken away: {result.claims_removed} claims, {result.entries_removed} entries",
        highlight=False,
    )
    if result.put_off:
        console.print(f"put off: {result.put_off}", markup=False, highlight=False, soft_wrap=True)
