"""How right and how fast the rules provider is: `python benchmarks/rules.py`, `--errors development` for why."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from report import table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "rules"))

from scoring import drafts_of, rows, scores, turns_of

from mnemon.logic.rules import reading

COLUMNS = ["part", "language", "precision", "recall", "right", "wrong", "missed"]


def turns_per_second(seconds: float) -> float:
    """Tagging and extraction of every labelled turn, over and over, nothing remembered from one round to the next."""
    conversations = [turns_of(row) for _, row in rows()]
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        reading.readings.cache_clear()
        for turns in conversations:
            drafts_of(turns)
            count += len(turns)
    return count / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", choices=["development"], help="list what goes wrong; the other parts stay unread")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure the speed (default 2)")
    options = parser.parse_args()
    found = scores()
    if options.errors:
        print("\n".join(found[options.errors, "both"].errors))
    lines = [
        [*key, f"{score.precision:.3f}", f"{score.recall:.3f}", str(score.right), str(score.wrong), str(score.missed)]
        for key, score in found.items()
    ]
    table("Rules provider on sentences labelled by hand", COLUMNS, lines)
    print(f"\n{turns_per_second(options.seconds):,.0f} turns/s, tagging and extraction, one core")


if __name__ == "__main__":
    main()
