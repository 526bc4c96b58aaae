"""How absolute the rules make a bot's sentences, and how fast: `python benchmarks/absolute.py`, `--errors` for why."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from report import p50, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "absolute"))

from absolute_lines import SETTINGS, rewritten, rows, scores

from mnemon.logic.absolute import absolute
from mnemon.logic.memo import forget_everything

COLUMNS = ["part", "language", "lines", "gate passed", "dates right", "of lines", "names right", "of", "unresolved"]
LONG = (
    "昨天阿杰说他下周三来这里，我刚才提醒了你。I told Tom that he could meet us here tomorrow, and he said it works. "
    * 2
)


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def per_line(seconds: float) -> float:
    """Processor time a labelled line takes, over and over, nothing remembered from one round to the next."""
    lines = [row for _, row in rows()]
    count, begun = 0, time.process_time()
    while time.process_time() - begun < seconds:
        forget_everything()
        for row in lines:
            rewritten(row)
        count += len(lines)
    return (time.process_time() - begun) / count


def of_a_long_line(rounds: int = 200) -> float:
    setting, times = SETTINGS["python_group"], []
    for _ in range(rounds):
        forget_everything()
        begun = time.process_time()
        absolute(LONG[:200], setting)
        times.append(time.process_time() - begun)
    return p50(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", choices=["development"], help="list what goes wrong; the other parts stay unread")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure the speed (default 2)")
    options = parser.parse_args()
    found = scores()
    if options.errors:
        print("\n".join(found[options.errors, "both"].errors))
    lines = [
        [
            *key,
            str(score.lines),
            share(score.passed, score.lines),
            share(score.dated, score.with_dates),
            str(score.with_dates),
            share(score.named, score.with_names),
            str(score.with_names),
            share(score.vague, score.lines),
        ]
        for key, score in found.items()
    ]
    table("Lines made absolute, labelled by hand", COLUMNS, lines)
    line, dense = per_line(options.seconds) * 1e6, of_a_long_line() * 1e6
    print(f"\n{line:,.0f} µs a line, {dense:,.0f} µs for 200 characters full of such words, one core")


if __name__ == "__main__":
    main()
