"""Ids as path components: no two ids meet, whatever a file system folds, and every short one can be read back."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.logic.paths import escape, unescape
from mnemon.logic.shelves import key_at

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=600)
# Characters that fold onto each other on one file system or another.
CLOSE = st.text("aAåÅÅ\u0301éeEßsSſﬁfiİıIi豈豈~.: /\\con1", min_size=1, max_size=6)


def folded(component: str) -> set[str]:
    """Every name under which some file system may keep a component."""
    stripped = {component, component.rstrip(". ")}
    forms = {unicodedata.normalize(form, name) for form in FORMS for name in stripped}
    return {fold(name) for name in forms for fold in (str.casefold, str.lower, str.upper)} | forms


@given(NAMES | CLOSE, NAMES | CLOSE)
@example("con", "CON")
@example("a", "a.")
@example("é", "e\u0301")
@example("\u8c48", "\uf900")
@example("x" * 512, "x" * 511 + "X")
@example("~2e", ".")
def test_two_ids_never_share_a_path(a: str, b: str) -> None:
    assume(a != b)
    assert not folded(escape(a)) & folded(escape(b))


@given(CLOSE, CLOSE)
def test_ids_that_look_alike_never_share_a_path(a: str, b: str) -> None:
    assume(a != b)
    assert not folded(escape(a)) & folded(escape(b))


@given(NAMES)
def test_a_component_is_safe_everywhere(name: str) -> None:
    component = escape(name)
    assert len(component.encode()) <= 255
    assert not set(component) & set('/\\:*?"<>|. \0')
    assert component.split(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT9", "COM0"}
    assert all(unicodedata.normalize(form, component) == component for form in FORMS)
    assert not any(ord(c) < 32 or ord(c) == 127 for c in component)


@given(NAMES)
def test_an_id_is_read_back_or_only_its_hash_is_there(name: str) -> None:
    component = escape(name)
    back = unescape(component)
    assert back == name or (back is None and "~~" in component)
    if len(name.encode()) <= 50:
        assert back == name


@given(st.text(max_size=300))
def test_unescape_takes_any_folder_name(component: str) -> None:
    back = unescape(component)
    assert back is None or isinstance(back, str)


@pytest.mark.parametrize("name", ["plain-id_1", "张三", "0123", "-"])
def test_plain_ids_stay_readable(name: str) -> None:
    assert escape(name) == name


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9", "aux", "prn"])
def test_device_names_are_escaped(name: str) -> None:
    assert escape(name) != name
    assert unescape(escape(name)) == name


def test_an_empty_id_has_no_path() -> None:
    with pytest.raises(ValueError):
        escape("")


def test_no_id_passes_for_another_owners_address():
    one = SessionKey("t", Owner.user("x"), "y/sessions/z")
    other = SessionKey("t", Owner.user("x/sessions/y"), "z")
    assert one.uri != other.uri
    assert SessionKey("t/users/x", Owner.user("y"), "z").uri != SessionKey("t", Owner.user("x/users/y"), "z").uri
    assert SessionKey("t", Owner.user("100%"), "a#b").uri == "ctx://t/users/100%25/sessions/a%23b"


def test_a_nodes_address_leads_back_to_it():
    key = NodeKey("t", Owner.user("a/b"), Shelf.ENTITIES, "50%/50-茶")
    assert key_at("t", Owner.user("a/b"), key.uri) == key
