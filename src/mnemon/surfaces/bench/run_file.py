"""What a run has found out so far, a line a question, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mnemon.contracts.errors import Conflict

Standing = Literal["right", "wrong", "unjudged", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question: `failed` where no model answered it, `unjudged` where the judge gave no verdict; neither is right.

    `degraded` names what retrieval did not do as asked; `why` is the judge's reason, or what went wrong."""

    id: str
    owner: str
    category: str
    standing: Standing
    answer: str = ""
    f1: float | None = None
    why: str = ""
    degraded: tuple[str, ...] = ()
    retrieval_ms: float = 0.0
    answer_ms: float = 0.0
    answer_calls: int = 0
    judge_calls: int = 0
    tokens: int = 0

    @property
    def settled(self) -> bool:
        return self.standing in ("right", "wrong")


class RunFile:
    """JSON lines: the settings of the run, then outcomes. Without a path nothing is kept."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = path
        if path is not None and not (path.exists() and path.read_bytes().strip()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_line(dict(settings)), encoding="utf-8")
        self.settled = {} if path is None else _settled(path, settings)

    def add(self, outcome: Outcome) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(asdict(outcome)))


def _settled(path: Path, settings: Mapping[str, Any]) -> dict[str, Outcome]:
    """What has a verdict; failures are asked again. A line that a kill cut off is taken away."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    head, *rows = (json.loads(line) for line in whole.splitlines()) if whole else ({},)
    if other := [name for name, value in settings.items() if head.get(name) != value]:
        raise Conflict(f"{path} holds a run with another {', '.join(other)}; name another file", field="run")
    found = (Outcome(**row | {"degraded": tuple(row["degraded"])}) for row in rows)
    return {outcome.id: outcome for outcome in found if outcome.settled}


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
