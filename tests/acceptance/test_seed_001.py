"""Seed 001, §4: who sees what, from the front door."""

from __future__ import annotations

from typing import Any

import pytest

from mnemon import Memory
from mnemon.contracts.errors import Conflict, InvalidArgument


def write(memory: Memory, tenant: str, user: str, text: str, **given: Any) -> Any:
    given.setdefault("session_id", "s")
    return memory.session_write(tenant, user, turns=[{"role": "user", "text": text}], extract=False, **given)


def seen(memory: Memory, tenant: str, user: str, **given: Any) -> set[str]:
    bound = memory.bind(tenant, user, **given)
    by_list = {m.content for m in bound.messages_list(page_size=200).items}
    by_words = {h.message.content for h in bound.lexical_search("secret 秘密", page_size=200).items}
    by_meaning = {h.message.content for h in bound.semantic_search("secret 秘密", top_k=200)}
    assert by_list == by_words == by_meaning
    return by_list


def test_4_2_users_do_not_see_each_other(memory: Memory) -> None:
    write(memory, "t", "a", "secret of a")
    write(memory, "t", "b", "秘密 of b")
    assert seen(memory, "t", "a") == {"secret of a"}
    assert seen(memory, "t", "b") == {"秘密 of b"}


def test_4_2_a_product_shares_what_was_written_for_it(memory: Memory) -> None:
    write(memory, "t", "a", "secret for the product", product_id="app", visibility="product")
    write(memory, "t", "a", "secret of a in the product", product_id="app", session_id="own")
    assert seen(memory, "t", "b", product_id="app") == {"secret for the product"}
    assert seen(memory, "t", "b") == set()
    assert seen(memory, "t", "a", product_id="app") == {"secret for the product", "secret of a in the product"}
    assert seen(memory, "t", "a") == set()


def test_4_2_public_is_for_everybody_in_the_tenant(memory: Memory) -> None:
    write(memory, "t", "a", "public secret", visibility="public")
    assert seen(memory, "t", "anybody") == {"public secret"}
    assert seen(memory, "other", "anybody") == set()


def test_4_2_a_group_is_seen_in_the_group_only(memory: Memory) -> None:
    write(memory, "t", "a", "group secret", group_id="g1", visibility="group")
    assert seen(memory, "t", "b", group_id="g1") == {"group secret"}
    assert seen(memory, "t", "b", group_id="g2") == set()
    assert seen(memory, "t", "a") == set()


def test_4_3_tenants_never_meet(memory: Memory) -> None:
    write(memory, "t1", "a", "secret in t1")
    write(memory, "t2", "a", "secret in t2")
    assert seen(memory, "t1", "a") == {"secret in t1"}
    assert seen(memory, "t2", "a") == {"secret in t2"}


@pytest.mark.parametrize("odd", ["*", "%", "_", "u:a", "A", "a ", "a\u0301", "á", "ａ", "../a", "a/b", "pub", "用户"])
def test_4_an_odd_id_is_just_another_id(memory: Memory, odd: str) -> None:
    write(memory, "t", "a", "secret of a")
    write(memory, "t", odd, "secret of the odd one")
    assert seen(memory, "t", odd) == {"secret of the odd one"}
    assert seen(memory, "t", "a") == {"secret of a"}
    assert memory.verify().ok


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "a\0b", "x" * 600])
@pytest.mark.parametrize("field", ["tenant_id", "user_id", "session_id"])
def test_4_a_bad_id_is_an_error_that_names_the_field(memory: Memory, field: str, bad: str) -> None:
    given = {"tenant_id": "t", "user_id": "u", "session_id": "s", field: bad}
    with pytest.raises(InvalidArgument) as caught:
        memory.session_write(**given, turns=[{"role": "user", "text": "x"}], extract=False)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("visibility", "field"), [("product", "product_id"), ("group", "group_id"), ("secret", "visibility")]
)
def test_4_visibility_says_what_it_needs(memory: Memory, visibility: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        write(memory, "t", "a", "x", visibility=visibility)
    assert caught.value.field == field


def test_4_the_visibility_of_a_session_is_fixed(memory: Memory) -> None:
    write(memory, "t", "a", "secret")
    with pytest.raises(Conflict):
        write(memory, "t", "a", "for all", visibility="public", mode="append")
    assert seen(memory, "t", "b") == set()


def test_4_same_session_id_of_two_people_never_meets(memory: Memory) -> None:
    for user in ("a", "b"):
        for text in ("secret one", "secret two"):
            write(memory, "t", user, f"{text} of {user}", visibility="public", session_id="same", mode="append")
            break
    bound = memory.bind("t", "c")
    for message in bound.messages_list().items:
        around = bound.neighbors(message.message_id, before=10, after=10)
        assert {m.meta["uri"] for m in around} == {message.meta["uri"]}
