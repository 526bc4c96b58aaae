"""Policies give the whole node as it shall be, keep every proof, and leave a person's own words alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_claims import day, made

from mnemon.contracts.claims import Claim, ClaimState, ToolStats
from mnemon.contracts.commits import PlanAction
from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import Node, NodeKey, Shelf
from mnemon.contracts.scope import Owner
from mnemon.logic.policies import REPETITIONS_KEPT, Change, claims_in, edited_by_hand, plan, rendered, same_node
from mnemon.logic.shelves import EXTRACTORS, SHELVES, key_at, node_key, slug

NOW = day(20)


def key(shelf: Shelf = Shelf.PREFERENCES) -> NodeKey:
    return NodeKey("t", Owner.user("ann"), shelf, "topic")


def change(*incoming: Claim, gone: tuple[str, ...] = (), shelf: Shelf = Shelf.PREFERENCES) -> Change:
    return Change(key(shelf), ("u:ann",), "topic", incoming, frozenset(gone))


def after(*incoming: Claim, existing: Node | None = None, shelf: Shelf = Shelf.PREFERENCES) -> Node:
    node = plan(change(*incoming, shelf=shelf), existing, NOW).after
    assert node is not None
    return node


TEA, HIKES = made("用户喜欢茶。", 1), made("The user likes hiking.", 2)


@pytest.mark.parametrize("shelf", list(Shelf))
def test_what_is_new_is_created_and_what_meets_it_is_merged_or_appended(shelf: Shelf) -> None:
    first = plan(change(TEA, shelf=shelf), None, NOW)
    assert (first.action, first.before, first.claim_ids) == (PlanAction.CREATE, None, (TEA.claim_id,))
    second = plan(change(HIKES, shelf=shelf), first.after, NOW)
    expected = PlanAction.APPEND if SHELVES[shelf].policy == "append_only" else PlanAction.MERGE
    assert (second.action, second.before, second.reason) == (expected, first.after, "1 new")


def test_what_is_there_already_is_skipped_and_what_has_nothing_left_is_deleted() -> None:
    node = after(TEA)
    assert plan(change(TEA), node, NOW).action is PlanAction.SKIP
    assert plan(change(), None, NOW).action is PlanAction.SKIP
    taken = plan(change(gone=(TEA.claim_id,)), node, NOW)
    assert (taken.action, taken.after, taken.reason) == (PlanAction.DELETE, None, "1 no longer extracted")
    assert plan(change(), after(made("x y", expires_at=day(25))), day(30)).action is PlanAction.DELETE


def test_a_merge_keeps_every_cited_span_of_both_sides() -> None:
    node = after(HIKES, made("用户喜欢茶。", 3, quote="茶真好喝"), existing=after(TEA))
    kept = [span.text_exact for claim in claims_in(node) for span in claim.spans]
    assert kept == ["用户喜欢茶。", "The user likes hiking.", "茶真好喝"]
    assert all(quote in node.content for quote in kept)
    again = plan(change(made("用户喜欢茶。", 4)), after(TEA), NOW)
    assert again.reason == "1 said again: evidence added"


def test_a_change_of_mind_is_told_as_such() -> None:
    made_up = plan(change(made("用户不喜欢茶。", 5)), after(TEA), NOW)
    assert made_up.reason == "1 new, 1 superseded"
    assert [c.state for c in claims_in(made_up.after)] == [ClaimState.SUPERSEDED, ClaimState.ACTIVE]


def used(on: int, calls: int, failed: int, **more: Any) -> Claim:
    stats = ToolStats(
        tool_name="search", call_count=calls, success_count=calls - failed, total_tokens=10 * calls, **more
    )
    return made("search: calls succeeded", on, kind=Kind.FACT, tool=stats)


def test_skill_statistics_are_added_up_over_every_session() -> None:
    node = None
    for on in range(1, REPETITIONS_KEPT + 5):
        node = after(used(on, 2, on % 2, best_for="news", common_failures="timeout"), existing=node, shelf=Shelf.SKILLS)
    assert node is not None
    sessions = REPETITIONS_KEPT + 4
    assert node.metadata["tool"] == ToolStats(
        tool_name="search",
        call_count=2 * sessions,
        success_count=2 * sessions - sessions // 2,
        total_tokens=20 * sessions,
        best_for="news",
        common_failures="timeout",
    ).model_dump(mode="json")
    once_more = after(used(1, 2, 1, best_for="news", common_failures="timeout"), existing=node, shelf=Shelf.SKILLS)
    assert same_node(once_more, node)


@pytest.mark.parametrize("mine", ["我自己写的一行。", "A line of my own."])
def test_what_a_person_wrote_stays_and_what_is_new_goes_below(mine: str) -> None:
    node = after(TEA)
    edited = replace(node, content=f"{node.content}\n{mine}\n")
    assert edited_by_hand(edited)
    assert not edited_by_hand(node)
    grown = after(HIKES, existing=edited)
    above, below = grown.content.split(mine)
    assert "用户喜欢茶" in above
    assert "The user likes hiking." in below
    assert edited_by_hand(grown)
    third = after(made("用户喜欢雨天。", 3), existing=grown)
    assert third.content.index(mine) < third.content.index("hiking") < third.content.index("雨天")
    assert third.content.count("用户喜欢茶") == node.content.count("用户喜欢茶")


def test_a_claim_that_goes_leaves_a_hand_edited_file_too() -> None:
    node = after(TEA, HIKES)
    edited = replace(node, content=f"{node.content}\n我自己写的。\n")
    left = plan(change(gone=(TEA.claim_id,)), edited, NOW).after
    assert left is not None
    assert "用户喜欢茶" not in left.abstract + left.overview + left.content
    assert "hiking" in left.content
    assert "我自己写的。" in left.content


def test_a_models_wording_lasts_as_long_as_its_claims_do() -> None:
    node = after(TEA)
    wording = {"abstract": "爱茶", "overview": "", "content": "一段话。", "claim_ids": [TEA.claim_id]}
    worded = rendered(key(), ("u:ann",), "topic", claims_in(node), NOW, node, wording)
    assert worded.abstract == "爱茶"
    assert after(existing=worded).abstract == "爱茶"
    grown = after(HIKES, existing=worded)
    assert "爱茶" not in grown.abstract + grown.content
    assert "merged" not in grown.metadata
    superseded = after(made("用户不喜欢茶。", 5), existing=worded)
    assert "爱茶" not in superseded.abstract + superseded.content


def test_the_nodes_governance_is_the_join_of_its_claims() -> None:
    node = after(TEA, made("交房租", 2, kind=Kind.TASK))
    assert node.metadata["governance"]["ttl_seconds"] == 30 * 86_400


def test_every_shelf_has_one_extractor_and_kinds_of_its_own() -> None:
    assert set(SHELVES) == set(Shelf)
    assert sorted(s for shelves in EXTRACTORS.values() for s in shelves) == sorted(Shelf)
    assert {kind for rule in SHELVES.values() for kind in rule.kinds} == set(Kind)


def test_claims_are_filed_by_topic_in_both_languages_and_never_mixed_between_audiences() -> None:
    assert node_key(TEA.model_copy(update={"routing_key": "Dark  Mode!"})).slug == "dark-mode"
    assert node_key(TEA.model_copy(update={"routing_key": "饮食 偏好"})).slug == "饮食-偏好"
    assert slug("!!!") == "general"
    mine, ours = node_key(TEA), node_key(TEA.model_copy(update={"principals": ("p:app", "u:ann")}))
    assert mine != ours
    assert key_at("t", mine.owner, mine.uri) == mine
    event = TEA.model_copy(update={"shelf": Shelf.EVENTS})
    assert node_key(event).slug.startswith("2026-01-01-topic-")
    assert node_key(TEA.model_copy(update={"shelf": Shelf.PROFILE})).slug == "profile"
