"""`mnemon skill`: recall skills of one's own, made, shown and checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import click
from rich.text import Text

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import Conflict
from mnemon.contracts.recall import RecallSettings
from mnemon.contracts.turns import Role
from mnemon.logic.skills import LONGEST_WINDOW, ROLES, Skill, read_skill, written
from mnemon.pipelines.recall.loading import FILE, load_skill, made_skill
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import console, print_json

_LANGUAGES = click.Choice(get_args(Language))
_ROLES = click.Choice(ROLES)
_WINDOW = click.IntRange(1, LONGEST_WINDOW)
_DEFAULTS = RecallSettings()


@click.group()
def skill() -> None:
    """Recall skills: how a model looks through somebody's messages, as a folder with a SKILL.md."""


@skill.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--language", type=_LANGUAGES, help="The language of the instructions.  [default: zh]")
@click.option("--window-days", type=_WINDOW, help="How far back to look, where a question does not say.  [default: 30]")
@click.option("--role", type=_ROLES, help="Whose words count.  [default: user]")
@click.option("--max-calls", type=click.IntRange(1, 200), help="How many looks at most; never more than configured.")
@click.option("--evidence", multiple=True, help="A further rule of evidence, in words; may be repeated.")
@click.option("--ask/--no-ask", default=None, help="Ask for what is not given.  [default: in a terminal]")
@shared
def create(
    folder: Path,
    language: Language | None,
    window_days: int | None,
    role: str | None,
    max_calls: int | None,
    evidence: tuple[str, ...],
    ask: bool | None,
    place: Place,
) -> None:
    """Write a recall skill to a folder, whose name becomes the skill's."""
    if ask if ask is not None else sys.stdin.isatty():
        language = language or click.prompt("language of the instructions", default="zh", type=_LANGUAGES)
        window_days = window_days or click.prompt("days to look back", default=_DEFAULTS.window_days, type=_WINDOW)
        role = role or click.prompt("whose words count", default=Role.USER.value, type=_ROLES)
        if not evidence:
            evidence = tuple(filter(None, [click.prompt("a further rule of evidence", default="", show_default=False)]))
    made = made_skill(
        folder.resolve().name,
        language or "zh",
        window_days or _DEFAULTS.window_days,
        role or Role.USER.value,
        max_calls or _DEFAULTS.max_calls,
        evidence,
    )
    file = folder / FILE
    text = written(made)
    read_skill(text)  # what is wrong with a name or a rule is told before anything is written
    if file.exists():
        raise Conflict(f"{file} is there already", field="folder")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if place.as_json:
        print_json({"path": str(file), "name": made.name, "settings": made.chosen})
    else:
        console.print(f"written to {file}; use it: mnemon recall … --skill {folder}", markup=False, highlight=False)


@skill.command()
@click.argument("source")
@click.option("--language", type=_LANGUAGES, default="zh", show_default=True, help="Of `recall`, which has both.")
@shared
def show(source: str, language: Language, place: Place) -> None:
    """A skill as it is understood, by its folder or its name (recall, recall-zh, recall-en)."""
    _print(load_skill(source, language), place, whole=True)


@skill.command()
@click.argument("source")
@shared
def check(source: str, place: Place) -> None:
    """Is this a skill that can be loaded, and what in it means nothing here?"""
    _print(load_skill(source, "zh"), place, whole=False)


def _print(loaded: Skill, place: Place, whole: bool) -> None:
    if place.as_json:
        told = {"name": loaded.name, "description": loaded.description, "settings": loaded.chosen}
        print_json({**told, "notes": loaded.notes, **({"instructions": loaded.instructions} if whole else {})})
        return
    console.print(Text(loaded.name, "bold"), Text(loaded.description))
    for name, value in loaded.chosen.items():
        console.print(f"  {name}: {value}", markup=False, highlight=False)
    for note in loaded.notes:
        console.print(Text.assemble(("  note: ", "yellow"), note))
    if whole:
        console.print(f"\n{loaded.instructions}", markup=False, highlight=False)
    else:
        console.print("it can be loaded", style="green")
