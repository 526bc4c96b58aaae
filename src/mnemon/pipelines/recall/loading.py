"""Where recall skills come from: two come with the package, any other from a folder with a `SKILL.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.logic.skills import Skill, read_skill

FILE = "SKILL.md"
# In the language of the question.
DEFAULT = "recall"
SHIPPED: dict[str, Language] = {"recall-zh": "zh", "recall-en": "en"}
NAMES = (DEFAULT, *SHIPPED)
_LARGEST = 1 << 20
_EVIDENCE = {"zh": "另外：", "en": "Besides:"}


def shipped_skill(name: str, language: Language) -> Skill:
    """One of those that come with the package."""
    return _shipped(f"{DEFAULT}-{language}" if name == DEFAULT else name)


@cache
def _shipped(name: str) -> Skill:
    file = resources.files("mnemon.pipelines.recall").joinpath("skills", name, FILE)
    return read_skill(file.read_text(encoding="utf-8"))


def is_shipped(skill: Skill) -> bool:
    """Is it one of them, and not only called so?"""
    return skill.name in SHIPPED and skill == _shipped(skill.name)


def load_skill(source: str | Path, language: Language) -> Skill:
    """By its name, if it came with the package; else the folder it lies in, or its file."""
    if source in NAMES:
        return shipped_skill(str(source), language)
    path = Path(source)
    file = path / FILE if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            raw = opened.read(_LARGEST + 1)
    except OSError:
        known = ", ".join(NAMES)
        raise NotFound(
            f"there is no skill {str(source)!r}: neither a folder with {FILE} nor one of {known}", field="skill"
        ) from None
    if len(raw) > _LARGEST:
        raise InvalidArgument(f"{file} is larger than {_LARGEST} bytes", field="skill")
    try:
        return read_skill(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{file}: not UTF-8 at byte {error.start}", field="skill") from None


def made_skill(
    name: str, language: Language, window_days: int, role: str, max_calls: int, evidence: Sequence[str] = ()
) -> Skill:
    """A skill of one's own: the one that comes with the package, with other settings and further rules of evidence."""
    base = shipped_skill(DEFAULT, language)
    rules = "\n".join(f"- {rule}" for rule in evidence)
    chosen = {**base.chosen, "window_days": window_days, "role": role, "max_calls": max_calls}
    instructions = f"{base.instructions}\n\n{_EVIDENCE[language]}\n{rules}" if rules else base.instructions
    return replace(base, name=name, chosen=chosen, instructions=instructions)
