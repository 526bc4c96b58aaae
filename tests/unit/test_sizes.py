"""What one more turn costs does not grow with the session, nor what is marked with the length of a turn."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mnemon import Config, Memory
from mnemon.contracts.errors import Conflict
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.layout import SEEN
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic import lexical
from mnemon.logic.lexical import MOST_MARKED, highlights, parse

QUIET = Config(background_worker=False)
SHORT, LONG = 300, 6_000
IO = Path("/proc/self/io")


def opened(home: Path) -> Memory:
    return Memory(home, llm="rules", embedder=HashEmbedder(), config=QUIET)


def turns(count: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "turn_id": f"t{n}", "text": f"line {n}: what was said of matter {n % 97}"}
        for n in range(count)
    ]


def moved(work: Callable[[], object]) -> int:
    """How many bytes were read and written meanwhile, through every file there is."""

    def told() -> int:
        rows = dict(line.split(": ") for line in IO.read_text().splitlines())
        return int(rows["rchar"]) + int(rows["wchar"])

    before = told()
    work()
    return told() - before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sizes")
    with opened(home) as memory:
        for name, count in (("short", SHORT), ("long", LONG)):
            memory.session_write("t", "u", name, turns=turns(count), extract=False)
    return home


@pytest.mark.skipif(not IO.exists(), reason="needs /proc to count what is read and written")
@pytest.mark.parametrize("extract", [False, True])
def test_one_more_turn_moves_as_many_bytes_in_a_long_session(home: Path, extract: bool) -> None:
    """Warm, and by somebody who has just come: of a session twenty times as long, a few bytes a turn more."""
    number = iter(range(1_000))

    def append(memory: Memory, session: str) -> int:
        more = [{"role": "user", "turn_id": f"more {extract} {next(number)}", "text": "and one more thing"}]
        return moved(lambda: memory.session_write("t", "u", session, turns=more, mode="append", extract=extract))

    cold, warm = {}, {}
    for session in ("short", "long"):
        with opened(home) as memory:
            append(memory, session)  # what was never judged is judged here, all of it
            append(memory, session)
        with opened(home) as memory:
            cold[session] = append(memory, session)
            warm[session] = min(append(memory, session) for _ in range(3))
    # Which of its turns were kept is told in one paper, some bytes a turn, read and written once.
    a_turn = 60 if extract else 0
    assert warm["long"] < warm["short"] * 1.5 + LONG * a_turn + 50_000
    assert cold["long"] < cold["short"] * 1.5 + LONG * (a_turn * 2 + 30) + 100_000
    assert (home / "tenants/t/users/u/sessions/long/turns.jsonl").stat().st_size > LONG * 250


def test_a_long_session_knows_its_turns_by_a_table(home: Path) -> None:
    log = home / "tenants/t/users/u/sessions/long/turns.jsonl"
    table = log.with_name(SEEN)

    def send(text: str) -> int:
        with opened(home) as memory:
            again = [*turns(2), {"role": "user", "turn_id": "t2", "text": text}]
            counts = memory.session_write("t", "u", "long", turns=again, mode="append", extract=False).counts
            return counts["events_written"]

    same = turns(3)[2]["text"]
    assert table.exists()
    assert send(same) == 0
    with pytest.raises(Conflict):
        send("other words")
    for damage in (b"", b"{}\n", table.read_bytes()[:-8], table.read_bytes().replace(b'"seq"', b'"sec"')):
        table.write_bytes(damage)
        assert send(same) == 0, "it is only a copy: without it the log is read"
    with opened(home) as memory:
        memory.session_write("t", "u", "gone", turns=turns(2_500), extract=False)
        assert (log.parent.parent / "gone" / SEEN).exists()
        memory.forget("t", "u", session_id="gone")
        assert not list(home.rglob(f"gone/{SEEN}"))
        assert memory.verify().ok


def test_the_place_of_a_line_is_found_by_halving(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for seed in range(40):
        rng = random.Random(seed)
        bodies = [b'{"t":"%b"}' % (b"x" * rng.choice([1, 90, 5_000, 30_000])) for _ in range(rng.randrange(90))]
        data, _ = chainlog.chained(bodies, datetime.now(UTC), 0, "h", b"0" * 16 * len(bodies))
        begins = [0]
        for line in data.splitlines(keepends=True):
            begins.append(begins[-1] + len(line))
        path.write_bytes(data + rng.choice([b"", b'{"seq":1', b'{"seq":99,"at"']))
        for seq in range(len(bodies) + 3):
            found = chainlog.place_after(path, seq)
            assert found in (0, begins[min(seq, len(bodies))]), (seed, seq)
            assert found or seq < 20 or not bodies


def test_what_is_marked_in_a_long_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    located = lexical.located

    def counting(text: str) -> object:
        looked.append(len(text))
        return located(text)

    monkeypatch.setattr(lexical, "located", counting)
    filler = "the quick brown fox watches 北京 的 天气 while nobody is there. " * 20_000
    text = f"{filler}Quinces ripen, 榴莲也熟了, QUINCE trees bloom. {filler}"
    for query, marked in (("quince", ["Quinces", "QUINCE"]), ("榴莲", ["榴莲"]), ("ripening -tea", ["ripen"])):
        looked.clear()
        assert [text[a:b] for a, b in highlights(parse(query), text)] == marked
        assert sum(looked) < 30_000, "of two million characters"
    looked.clear()
    assert len(highlights(parse("fox 天气"), text)) == MOST_MARKED
    assert sum(looked) < 300_000
