"""Tokens: made once, kept as a hash, gone when they are revoked; and the commands that make them."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from mnemon.contracts.errors import InvalidArgument, NotFound, Unavailable
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.cli import cli
from mnemon.testing.clock import FixedClock


def test_only_the_hash_of_a_token_is_kept_and_nobody_else_can_read_the_file(tmp_path: Path) -> None:
    token, secret = Tokens(tmp_path).create("acme", "ann", product_id="app", groups=["g1"])
    file = tmp_path / "tokens.json"
    assert secret not in file.read_text()
    assert secret.removeprefix("mnm_")[:20] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret.endswith(token.last4)
    assert len(secret) > 43  # 256 bits


def test_a_token_is_found_by_its_secret_and_by_nothing_near_it(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token, secret = tokens.create("acme", "ann")
    assert tokens.find(secret) == token
    for near in ("", secret[:-1], secret + "x", secret.upper(), token.sha256, token.id, "mnm_", "\udcff"):
        assert tokens.find(near) is None


def test_a_revocation_counts_at_once_for_everybody_who_reads_the_file(tmp_path: Path) -> None:
    running, elsewhere = Tokens(tmp_path), Tokens(tmp_path)
    token, secret = elsewhere.create("acme", "ann")
    assert running.find(secret) is not None
    elsewhere.revoke(token.id)
    assert running.find(secret) is None
    assert elsewhere.revoke(token.id).revoked_at == elsewhere.listed()[0].revoked_at


def test_a_token_ends_when_its_days_are_over(tmp_path: Path) -> None:
    clock = FixedClock()
    tokens = Tokens(tmp_path, clock)
    _, secret = tokens.create("acme", "ann", days=1)
    assert tokens.find(secret) is not None
    assert Tokens(tmp_path, FixedClock(clock.now() + timedelta(days=1))).find(secret) is None


def test_a_token_says_who_it_is_for(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    for wrong in (
        {"tenant_id": "acme"},
        {"tenant_id": "", "user_id": "ann"},
        {"tenant_id": "acme", "user_id": "ann", "service": True},
        {"tenant_id": "acme", "groups": ["g"], "service": True},
        {"tenant_id": "acme", "user_id": "ann", "days": 0},
        {"tenant_id": "acme", "user_id": "a\nb"},
    ):
        with pytest.raises(InvalidArgument):
            tokens.create(**wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "tokens.json").exists()
    with pytest.raises(NotFound):
        tokens.revoke("nobody")


def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.create("acme", "ann")
    (tmp_path / "tokens.json").write_text('{"tokens": [{"id": ')
    with pytest.raises(Unavailable, match="cannot be read"):
        tokens.find(secret)


def test_the_commands_make_list_and_revoke(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["token", *arguments, "--home", str(tmp_path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "no tokens" in run("list")
    secret = run("create", "--tenant", "acme", "--user", "小林", "--group", "g1", "--group", "g2").strip()
    service = json.loads(run("create", "--tenant", "acme", "--service", "--json"))
    assert Tokens(tmp_path).find(secret) is not None
    assert service["kind"] == "service"
    assert "sha256" not in service
    listed = run("list", "--json")
    assert secret not in listed
    assert service["token"] not in listed
    assert [t["user_id"] for t in json.loads(listed)] == ["小林", None]
    assert service["last4"] in run("revoke", service["id"])
    assert "revoked" in run("list")
    assert Tokens(tmp_path).find(service["token"]) is None


def test_a_token_needs_somebody() -> None:
    done = CliRunner().invoke(cli, ["token", "create", "--tenant", "acme"])
    assert done.exit_code == 2
    assert "--user" in done.output
