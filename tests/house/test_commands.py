"""Every command explains itself, has a line in the docs, and takes --json and --home."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mnemon.surfaces.cli import cli


def leaves(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        return [leaf for name, sub in command.commands.items() for leaf in leaves(sub, (*path, name))]
    return [(path, command)]


COMMANDS = leaves(cli, ("mnemon",))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_a_command_explains_itself(path: tuple[str, ...], command: click.Command, root: Path) -> None:
    assert command.help
    assert command.help.strip()[0].isupper()
    options = {o for p in command.params for o in p.opts}
    assert {"--json", "--home"} <= options
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{' '.join(path)} {parameter.opts[-1]}"
    docs = (root / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"`{' '.join(path)}" in docs, f"no line for {' '.join(path)} in docs/commands.md"
