"""The chained log: what a line proves, what a torn tail is, and how a line is forgotten."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mnemon.contracts.errors import Corrupt
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.chainlog import Line, Torn

AT = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
START = chainlog.genesis("turns", "t", "users/u", "s")
BODIES = [json.dumps({"n": n, "text": "字 \u2028 😀"}, ensure_ascii=False).encode() for n in range(3)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    data, _ = chainlog.chained(BODIES, AT, 0, START, bytes(48))
    chainlog.append(str(path), data, 0)
    return path


def whole(path: Path) -> list[bytes]:
    return [item[1] for item in chainlog.read_lines(path) if not isinstance(item, Torn)]


def test_genesis_keeps_logs_apart() -> None:
    assert chainlog.genesis("a", "b") != chainlog.genesis("a", "", "b") != chainlog.genesis("ab")
    assert chainlog.genesis("a", 'b","c') != chainlog.genesis("a", "b", "c")


def test_lines_come_back_as_they_were_written(log: Path) -> None:
    lines = list(chainlog.lines(log))
    assert [line.seq for line in lines] == [1, 2, 3]
    assert [line.body for line in lines] == BODIES
    assert {line.at for line in lines} == {AT}
    for raw in whole(log):
        assert json.loads(raw)["body"]["text"] == "字 \u2028 😀", "a line is JSON for everybody"


def test_every_line_is_proved_from_the_one_before(log: Path) -> None:
    head = START
    for seq, raw in enumerate(whole(log), 1):
        line = chainlog.prove(raw, head, seq)
        assert isinstance(line, Line)
        assert isinstance(chainlog.prove(raw, "0" * 64, seq), str)
        assert isinstance(chainlog.prove(raw, head, seq + 1), str)
        head = line.chain


def test_no_byte_of_a_line_can_be_changed(log: Path) -> None:
    raw = whole(log)[0]
    for at in range(len(raw)):
        for changed in (
            raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :],
            raw[:at] + raw[at + 1 :],
            raw[:at] + b"0" + raw[at:],
        ):
            assert isinstance(chainlog.prove(changed, START, 1), str), at
            parsed = chainlog.parse(changed)
            assert parsed is None or isinstance(parsed, Line)


def test_no_byte_of_a_tombstone_can_be_changed(log: Path) -> None:
    gone = {"turn_id": "t1", "at": AT.isoformat(), "reason": "用户要求"}
    raw = chainlog.render_gone(whole(log)[0], gone)
    line = chainlog.prove(raw, START, 1)
    assert isinstance(line, Line)
    assert (line.body, line.gone) == (None, gone)
    for at in range(len(raw)):
        for changed in (raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], raw[:at] + raw[at + 1 :]):
            assert isinstance(chainlog.prove(changed, START, 1), str), at
            parsed = chainlog.parse(changed)
            assert parsed is None or isinstance(parsed, Line)


def test_a_tombstone_keeps_the_chain_and_nothing_of_the_words(log: Path) -> None:
    raws = whole(log)
    salt = json.loads(raws[1])["salt"].encode()
    forgotten = chainlog.render_gone(raws[1], {"turn_id": "t2", "at": AT.isoformat(), "reason": ""})
    assert "字".encode() not in forgotten
    assert b"salt" not in forgotten
    assert salt not in forgotten
    first = chainlog.prove(raws[0], START, 1)
    assert isinstance(first, Line)
    second = chainlog.prove(forgotten, first.chain, 2)
    assert isinstance(second, Line)
    assert isinstance(chainlog.prove(raws[2], second.chain, 3), Line)
    assert chainlog.render_gone(forgotten, {"turn_id": "again"}) == forgotten


def test_the_same_words_have_another_digest_each_time() -> None:
    _, one = chainlog.render(1, AT.isoformat().encode(), b"{}", START, b"a" * 16)
    _, two = chainlog.render(1, AT.isoformat().encode(), b"{}", START, b"b" * 16)
    assert one != two


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_torn_tail_is_told_and_not_read(log: Path, cut: int) -> None:
    data = log.read_bytes()
    log.write_bytes(data[:-cut])
    *lines, torn = chainlog.read_lines(log)
    assert len(lines) == 2
    assert isinstance(torn, Torn)
    assert torn.offset + torn.length == len(data) - cut
    assert len(list(chainlog.lines(log))) == 2


def test_zeros_behind_the_last_line_are_torn(log: Path) -> None:
    log.write_bytes(log.read_bytes() + bytes(5000))
    *lines, torn = chainlog.read_lines(log)
    assert len(lines) == 3
    assert isinstance(torn, Torn)
    assert torn.length == 5000


def test_an_empty_line_hides_nothing_that_follows(log: Path) -> None:
    """What stands behind it was acknowledged: it must not pass for a torn tail."""
    first, second, third = whole(log)
    log.write_bytes(first + b"\n" + second + third)
    assert not any(isinstance(item, Torn) for item in chainlog.read_lines(log))
    with pytest.raises(Corrupt):
        list(chainlog.lines(log))


def test_a_changed_line_end_is_not_a_torn_tail(log: Path) -> None:
    head = list(chainlog.lines(log))[1].chain
    data = log.read_bytes()
    for damaged, lost in ((data[:-1] + b"x", True), (data[:-1], False), (data[:-2], False), (data + b"x", False)):
        log.write_bytes(damaged)
        *_, torn = chainlog.read_lines(log)
        assert isinstance(torn, Torn)
        assert chainlog.lost_its_end(torn, head, 3) is lost


def test_appending_cuts_off_what_is_torn(log: Path) -> None:
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b'{"seq":4,"at"')
    data, _ = chainlog.chained([b"{}"], AT, 3, list(chainlog.lines(log))[-1].chain, bytes(16))
    left = chainlog.append(str(log), data, size)
    assert left == chainlog.stamp(str(log))
    assert [line.seq for line in chainlog.lines(log)] == [1, 2, 3, 4]


def test_a_missing_log_has_no_lines(tmp_path: Path) -> None:
    assert list(chainlog.lines(tmp_path / "none.jsonl")) == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n",
        b"{}\n",
        b"\xff\xfe\n",
        b'{"seq":1,"at":"99999999999999999999","salt":"%b","chain":"%b","body":{}}\n' % (b"0" * 32, b"0" * 64),
        b'{"seq":1,"digest":"%b","chain":"%b","gone":{]},"seal":"%b"}\n' % (b"0" * 64, b"0" * 64, b"0" * 64),
        b'{"seq":1,"digest":"%b","chain":"%b","gone":{"a":%b},"seal":"%b"}\n'
        % (b"0" * 64, b"0" * 64, b"[" * 100000, b"0" * 64),
    ],
)
def test_garbage_is_no_line(garbage: bytes) -> None:
    assert chainlog.parse(garbage) is None
    assert isinstance(chainlog.prove(garbage, START, 1), str)


def test_a_write_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_size))
    chainlog.append(str(tmp_path / "log"), b"12345", 0)
    assert synced == [5]
