"""Sealed documents: any change shows, and garbage is named as such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.contracts.errors import Corrupt
from mnemon.drivers.archive.fs.sealed import read_sealed, seal, unseal

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BODY = {"字": "emoji 😀 \u2028", "n": [1, 2.5, None], "deep": {"b": True, "a": ""}}


@given(st.dictionaries(TEXT.filter(lambda key: key != "seal"), JSON, max_size=4))
def test_what_is_sealed_comes_back(body: dict[str, object]) -> None:
    assert unseal(seal(body), "here") == body


@given(JSON)
def test_what_is_not_sealed_is_refused(value: object) -> None:
    with pytest.raises(Corrupt):
        unseal(json.dumps(value).encode(), "here")


def test_every_change_of_a_byte_shows() -> None:
    data = seal(BODY)
    for at in range(len(data)):
        for changed in (
            data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
            data[:at] + data[at + 1 :],
            data[:at] + b" " + data[at:],
            data[:at] + b"\n" + data[at:],
        ):
            with pytest.raises(Corrupt):
                unseal(changed, "here")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"seal"',
        b"{}",
        b'{"seal": 1}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"1" * 10_000,
        b'{"a": "\\ud800", "seal": ""}',
        b'{"a": NaN, "seal": ""}',
        seal(BODY) + seal(BODY),
        json.dumps(json.loads(seal(BODY))).encode(),
    ],
)
def test_garbage_is_named(garbage: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        unseal(garbage, "the place")
    assert caught.value.where == "the place"


def test_a_missing_document_is_none(tmp_path: Path) -> None:
    assert read_sealed(tmp_path / "none.json") is None
    (tmp_path / "some.json").write_bytes(seal(BODY))
    assert read_sealed(tmp_path / "some.json") == BODY
