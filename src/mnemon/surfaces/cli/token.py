"""`mnemon token`: who may use the service."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from mnemon.engine.tokens import Token, Tokens
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json


@click.group()
def token() -> None:
    """Tokens for the service: make, list, revoke."""


@token.command()
@click.option("--tenant", required=True, help="The tenant.")
@click.option("--user", help="The person the token is.")
@click.option("--product", help="The product they speak through.")
@click.option("--group", "groups", multiple=True, help="A group they are in; may be repeated.")
@click.option("--agent", "agents", multiple=True, help="An agent they may speak to; may be repeated.")
@click.option("--service", is_flag=True, help="A token for a backend: each request names the person.")
@click.option("--days", type=int, help="How many days it holds. Default: until it is revoked.")
@shared
def create(
    tenant: str,
    user: str | None,
    product: str | None,
    groups: tuple[str, ...],
    agents: tuple[str, ...],
    service: bool,
    days: int | None,
    place: Place,
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    if not service and user is None:
        raise click.UsageError("say whose token it is with --user, or --service for a backend")
    made, secret = Tokens(place.home).create(
        tenant, user, product_id=product, groups=groups, agents=agents, service=service, days=days
    )
    if place.as_json:
        print_json({**_shown(made), "token": secret})
    else:
        click.echo(secret)


@token.command("list")
@shared
def list_(place: Place) -> None:
    """Every token there is, also those that no longer hold."""
    known = Tokens(place.home).listed()
    if place.as_json:
        print_json([_shown(t) for t in known])
        return
    table = Table("id", "kind", "tenant", "who", "ends in", "made", "holds")
    for t in known:
        who = " ".join(filter(None, (t.user_id, t.product_id, *t.groups, *t.agents)))
        until = f"revoked {t.revoked_at}" if t.revoked_at else f"until {t.expires_at}" if t.expires_at else "yes"
        table.add_row(t.id, t.kind, Text(t.tenant_id), Text(who), Text(t.last4), t.created_at, until)
    console.print(table if known else "no tokens: the service listens to this machine only")


@token.command()
@click.argument("token_id")
@shared
def revoke(token_id: str, place: Place) -> None:
    """Refuse a token from now on, also in a service that is running."""
    revoked = Tokens(place.home).revoke(token_id)
    if place.as_json:
        print_json(_shown(revoked))
    else:
        console.print(f"revoked {revoked.id} (…{revoked.last4})", markup=False, highlight=False)


def _shown(token: Token) -> dict[str, Any]:
    return {f.name: getattr(token, f.name) for f in fields(token) if f.name != "sha256"}
