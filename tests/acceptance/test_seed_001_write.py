"""Seed 001, §5, §6, §8 and the write items of §10.2: what `session_write` keeps, and what it says of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.commits import CommitConfig, PipelineConfig
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import Conflict, ModelFailed, ModelNotConfigured
from mnemon.contracts.filters import Eq
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import LlmConfig
from mnemon.logic.ids import marker_id
from mnemon.pipelines.index import indexing
from mnemon.testing.answers import (
    ENTITY_EVENT,
    EXTRACTORS,
    MERGE,
    PREFERENCES,
    PROFILE,
    SUMMARY,
    TAGGING,
    fact,
    model,
    script,
    tag,
    tagging,
)
from mnemon.testing.clock import FixedClock
from mnemon.testing.llm_server import llm_server
from mnemon.testing.scripted import ScriptedLLM

LIVES = {"turn_id": "t1", "role": "user", "text": "我住在上海。", "timestamp_iso": "2026-01-01T09:00:00Z"}
DRINKS = {"turn_id": "t2", "role": "user", "text": "I drink green tea every morning.", "speaker": "Lin"}
CHATTER = {"turn_id": "t3", "role": "assistant", "text": "Tea is a fine thing."}
TALK = [LIVES, DRINKS, CHATTER]
TAGS = tagging(tag(LIVES, "我住在上海"), tag(DRINKS, "I drink green tea", "preference"), dropped=("t3",))
SHANGHAI = fact(LIVES, "我住在上海", "用户住在上海", dedup_key="residence", rationale="住在上海")
TEA = fact(
    DRINKS, "I drink green tea every morning", "User drinks green tea every morning", "preferences",
    routing_key="drinks", importance="high",
)  # fmt: skip
KEY = SessionKey("acme", Owner.user("lin"), "s")
SESSION = "tenants/acme/users/lin/sessions/s"
RULES = Config(background_worker=False)


@pytest.fixture
def quiet(home: Path, clock: FixedClock) -> Iterator[Memory]:
    """A memory whose jobs are done when the test says so."""
    with Memory(home, embedder=HashEmbedder(), config=RULES, clock=clock) as opened:
        yield opened


def good() -> dict[str, Any]:
    return script(TAGS, SHANGHAI, TEA)


def write(memory: Memory, llm: Any = None, turns: Any = None, session: str = "s", **given: Any) -> Any:
    return memory.session_write("acme", "lin", session, turns=turns or TALK, llm=llm, **given)


def entries(memory: Memory, kind: str, session: str = "s") -> list[Entry]:
    async def found() -> list[Entry]:
        page = await memory.parts.index.scroll(Scope.steward_of("acme"), Eq("kind", kind), "position", 200)
        return [e for e in page.entries if e.fields.get("session_id") == session]

    return asyncio.run(found())


def marker(memory: Memory) -> Entry:
    (entry,) = entries(memory, "session_marker")
    return entry


def page(home: Path, session: str = "s") -> dict[str, Any]:
    text = (home / f"tenants/acme/users/lin/sessions/{session}/session.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def files(home: Path, *but: str) -> dict[str, bytes]:
    """Everything on disk that is not a replica or a lock."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
        and not path.name.startswith(("index.db", "graph.db"))
        and not any(part in str(path) for part in but)
    }


def statements(memory: Memory, **given: Any) -> set[str]:
    return {c.statement for c in memory.claims("acme", "lin", **given).items}


def on_file(home: Path, session: str = "s") -> set[str]:
    path = home / f"tenants/acme/users/lin/sessions/{session}/claims.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return {row["statement"] for row in rows if "statement" in row}


def in_nodes(memory: Memory) -> set[str]:
    nodes = [memory.node("acme", "lin", n.uri) for n in memory.nodes("acme", "lin")]
    return {row["statement"] for node in nodes for row in node.metadata["claims"]}


def in_index(memory: Memory, session: str = "s") -> set[str]:
    return {e.text for e in entries(memory, "claim", session)}


class AtOnce(ScriptedLLM):
    """Counts how many calls are under way at the same time."""

    most = now = 0

    async def complete(self, *args: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        try:
            return await super().complete(*args)
        finally:
            self.now -= 1


# --- 5


def test_5_1_an_event_entry(memory: Memory) -> None:
    write(memory, model(good()), product_id="app")
    first, second, _ = entries(memory, "turn")
    assert first.text == LIVES["text"]
    assert first.principals == ("p:app", "u:lin")
    assert {name: first.fields[name] for name in ("domain", "session_id", "source", "turn_id", "role", "modality")} == {
        "domain": "dialog",
        "session_id": "s",
        "source": "locomo_text_pipeline",
        "turn_id": "t1",
        "role": "user",
        "modality": "text",
    }
    assert first.metadata["timestamp_iso"] == "2026-01-01T09:00:00Z"
    assert second.fields["speaker"] == "Lin"


def test_5_2_a_fact_entry(memory: Memory) -> None:
    write(memory, model(good()), product_id="app")
    entry = next(e for e in entries(memory, "claim") if e.text == "用户住在上海")
    assert entry.principals == ("p:app", "u:lin")
    assert {name: entry.fields[name] for name in ("domain", "source", "modality", "fact_type", "status", "state")} == {
        "domain": "dialog",
        "source": "locomo_text_pipeline",
        "modality": "text",
        "fact_type": "fact",
        "status": "n/a",
        "state": "active",
    }
    claim = entry.metadata["claim"]
    assert claim["governance"]["forget_policy"] == "temporary"
    assert claim["governance"]["importance"] == entry.fields["importance"] == 0.7
    assert claim["session_id"] == "s"
    assert [s["turn_id"] for s in claim["spans"]] == ["t1"]
    assert claim["rationale"] == "住在上海"


def test_5_2_importance_has_its_label_too(memory: Memory) -> None:
    result = write(memory, model(script(tagging(kept=("t2",)), TEA)))
    (claim,) = result.claims
    assert (claim.governance.importance, claim.governance.importance_level) == (0.9, "high")


# --- 6.1 and 6.2


def test_6_1_a_write_says_its_version_its_counts_and_what_it_extracted(memory: Memory, home: Path) -> None:
    result = write(memory, model(good()))
    assert result.status == "ok"
    assert result.version == page(home)["version"]
    assert (result.counts["events_written"], result.counts["facts_written"], result.counts["turns_kept"]) == (3, 2, 2)
    assert {c.statement for c in result.claims} == {"用户住在上海", "User drinks green tea every morning"}
    assert {n.action for n in result.nodes} == {"create"}
    assert memory.verify().ok


def test_6_2_extract_false_keeps_the_words_and_asks_nobody(memory: Memory) -> None:
    llm = ScriptedLLM()
    result = write(memory, llm, extract=False)
    assert (result.counts["events_written"], result.counts["facts_written"], llm.asked) == (3, 0, [])
    assert all(e.fields["kept"] for e in entries(memory, "turn"))


def test_6_2_without_events_the_facts_are_written_and_still_proven(memory: Memory) -> None:
    result = write(memory, model(good()), write_events=False)
    assert (result.counts["events_written"], result.counts["facts_written"]) == (0, 2)
    assert not any(e.fields["kept"] for e in entries(memory, "turn"))
    assert result.claims[0].spans[0].text_exact == "我住在上海"
    assert len(memory.bind("acme", "lin").messages_list().items) == 3
    assert memory.verify().ok


def test_6_2_without_facts_the_turns_are_judged_and_nothing_is_extracted(memory: Memory) -> None:
    llm = model({TAGGING: [TAGS], SUMMARY: [{"summary": ""}]})
    result = write(memory, llm, write_facts=False)
    assert result.counts["facts_written"] == 0
    assert [e.fields["kept"] for e in entries(memory, "turn")] == [True, True, False]
    assert (result.claims, memory.nodes("acme", "lin")) == ((), [])


def test_6_2_require_without_a_model_writes_not_one_byte(quiet: Memory, home: Path) -> None:
    before = files(home)
    with pytest.raises(ModelNotConfigured) as caught:
        write(quiet)
    assert caught.value.code == "MODEL_NOT_CONFIGURED"
    assert "language model" in caught.value.message
    assert files(home) == before


def test_6_2_best_effort_without_a_model_writes_events_only(memory: Memory, clock: FixedClock) -> None:
    result = write(memory, llm_policy="best_effort")
    assert (result.status, result.counts["events_written"], result.counts["facts_written"]) == ("ok", 3, 0)
    assert result.counts["facts_skipped_reason"] == "llm_missing"
    assert "facts" in {d.what for d in result.degraded}
    assert all(e.fields["kept"] and e.fields.get("expires_at") is None for e in entries(memory, "turn"))
    clock.tick(days=4000)
    assert len(memory.bind("acme", "lin").messages_list().items) == 3


def test_6_2_the_calls_model_comes_before_the_memorys_and_that_before_the_platforms(home: Path) -> None:
    config = Config(llm=LlmConfig(provider="rules"))
    own = model(good())
    with Memory(home, embedder=HashEmbedder(), config=config, llm=own) as memory:
        assert write(memory).debug["llm_used"]["provider"] == "scripted"
        assert write(memory, "rules", session="b").debug["llm_used"]["provider"] == "rules"
    with Memory(home, embedder=HashEmbedder(), config=config) as memory:
        assert write(memory, session="c").debug["llm_used"]["provider"] == "rules"


# --- 6.2.1


def test_6_2_1_a_completed_session_is_skipped_without_a_call(memory: Memory, home: Path) -> None:
    write(memory, model(good()))
    before, llm = files(home), ScriptedLLM()
    again = write(memory, llm)
    assert (again.status, llm.asked, files(home)) == ("skipped_existing", [], before)
    assert again.counts["facts_written"] == 0


def test_6_2_1_unseen_turns_of_a_completed_session_are_named(memory: Memory) -> None:
    write(memory, model(good()))
    new = {"turn_id": "t4", "role": "user", "text": "新的话"}
    again = write(memory, ScriptedLLM(), [*TALK, new])
    assert again.counts["turns_unseen"] == 1
    assert any(d.what == "unseen_turns" and "t4" in d.why for d in again.degraded)
    assert len(memory.bind("acme", "lin").messages_list().items) == 3


def test_6_2_1_overwrite_takes_away_only_what_is_no_longer_extracted(memory: Memory, home: Path) -> None:
    first = write(memory, model(good()))
    before = {c.statement: c.claim_id for c in first.claims}
    result = write(memory, model(script(TAGS, SHANGHAI)), overwrite_existing=True)
    assert result.status == "ok"
    assert result.counts["facts_removed"] == 1
    assert {c.statement: c.claim_id for c in result.claims} == {"用户住在上海": before["用户住在上海"]}
    assert on_file(home) == in_nodes(memory) == in_index(memory) == statements(memory) == {"用户住在上海"}
    assert [n.category for n in memory.nodes("acme", "lin")] == ["profile"]
    assert page(home)["claim_ids"] == [before["用户住在上海"]]
    assert memory.verify().notes == []
    assert memory.verify().ok


def test_6_2_1_overwrite_lets_what_it_had_superseded_hold_again(memory: Memory) -> None:
    write(memory, model(good()))
    moved = {"turn_id": "m", "role": "user", "text": "我住在杭州。", "timestamp_iso": "2026-02-01T09:00:00Z"}
    hangzhou = fact(moved, "我住在杭州", "用户住在杭州", dedup_key="residence")
    said = {"abstract": "用户住在杭州", "reason": "moved"}
    result = write(
        memory, model(script(tagging(tag(moved, "我住在杭州")), hangzhou, more={MERGE: [said]})), [moved], "later"
    )
    assert [c.statement for c in result.superseded] == ["用户住在上海"]
    assert "用户住在上海" not in statements(memory)
    write(memory, model(script(tagging(kept=("m",)))), [moved], "later", overwrite_existing=True)
    assert statements(memory, kind="fact") == {"用户住在上海"}
    (back,) = memory.claims("acme", "lin", kind="fact").items
    assert (back.valid_to, back.superseded_by, back.state) == (None, "", "active")
    assert memory.claim("acme", "lin", back.claim_id) == back
    assert memory.verify().notes == []


def test_6_2_1_overwrite_keeps_what_an_extractor_that_failed_had_found(memory: Memory) -> None:
    write(memory, model(good()))
    away = script(TAGS, SHANGHAI, more={PREFERENCES: [ModelFailed("away")]})
    result = write(memory, model(away), overwrite_existing=True)
    assert (result.status, result.counts["facts_removed"]) == ("ok", 0)
    assert PREFERENCES in {d.what for d in result.degraded}
    assert statements(memory) == in_nodes(memory) == {"用户住在上海", "User drinks green tea every morning"}
    assert memory.verify().notes == []


def test_6_2_1_overwrite_with_a_model_that_fails_the_gates_keeps_what_was_known(memory: Memory) -> None:
    write(memory, model(good()))
    bad = tagging(tag(LIVES, "我住在上海", span={"start": 0, "end": 2, "text_exact": "北京"}))
    result = write(memory, model({TAGGING: [bad, bad], SUMMARY: [{"summary": ""}]}), overwrite_existing=True)
    assert result.status == "failed"
    assert "stays" in result.error_reason
    assert statements(memory) == {"用户住在上海", "User drinks green tea every morning"}
    assert write(memory, model(good()), overwrite_existing=True).status == "ok"
    assert memory.verify().notes == []


def test_6_2_1_what_a_person_corrected_stays_when_it_is_extracted_again(memory: Memory) -> None:
    first = write(memory, model(good()))
    claim = next(c for c in first.claims if c.kind == "fact")
    memory.correct("acme", "lin", claim.claim_id, "用户住在上海浦东", "说得更准")
    write(memory, model(good()), overwrite_existing=True)
    assert statements(memory, kind="fact") == {"用户住在上海浦东"}


def test_6_2_1_the_marker_is_found_by_its_id_and_says_how_the_session_stands(memory: Memory) -> None:
    result = write(memory, model(good()))
    entry = marker(memory)
    assert entry.id == marker_id(KEY)
    assert entry.text == "session_marker s"
    assert (entry.fields["status"], entry.fields["session_id"]) == ("completed", "s")
    assert entry.fields["source"] == "dialog_session_marker"
    assert entry.metadata["node_type"] == "session_marker"
    assert entry.metadata["claim_ids"] == [c.claim_id for c in result.claims]
    found = memory.bind("acme", "lin").lexical_search("session_marker OR 上海").items
    assert [h.message.content for h in found] == [LIVES["text"]]


# --- 6.2.1, append


def test_append_extracts_only_from_the_turns_it_has_not_seen(memory: Memory, home: Path) -> None:
    write(memory, model(good()))
    new = {"turn_id": "t4", "role": "user", "text": "我有一只猫。"}
    cat = fact(new, "我有一只猫", "用户有一只猫", "entities", routing_key="猫")
    llm = model(script(tagging(tag(new, "我有一只猫")), cat))
    result = write(memory, llm, [*TALK, new], mode="append")
    assert (result.counts["events_written"], result.counts["facts_written"]) == (1, 1)
    shown = "\n".join(m.text for messages in llm.asked for m in messages)
    assert "我有一只猫" in shown
    assert "green tea" not in shown
    assert statements(memory) == {"用户住在上海", "User drinks green tea every morning", "用户有一只猫"}
    assert (page(home)["commits"], len(page(home)["claim_ids"])) == (2, 3)
    assert [e.fields["kept"] for e in entries(memory, "turn")] == [True, True, False, True]


def test_append_of_nothing_new_asks_nobody_and_forgets_nothing(memory: Memory, home: Path) -> None:
    write(memory, model(good()))
    for _ in range(3):
        llm = ScriptedLLM()
        assert write(memory, llm, mode="append").status == "ok"
        assert llm.asked == []
    assert page(home)["commits"] == 1
    assert statements(memory) == {"用户住在上海", "User drinks green tea every morning"}


def test_append_without_a_model_leaves_what_was_judged_as_it_was(memory: Memory) -> None:
    write(memory, model(good()))
    new = {"turn_id": "t4", "role": "user", "text": "我有一只猫。"}
    write(memory, None, [*TALK, new], mode="append", llm_policy="best_effort")
    assert [e.fields["kept"] for e in entries(memory, "turn")] == [True, True, False, True]
    before = [(e.id, e.fields) for kind in ("turn", "claim") for e in entries(memory, kind)]
    memory.rebuild()
    assert [(e.id, e.fields) for kind in ("turn", "claim") for e in entries(memory, kind)] == before
    cat = fact(new, "我有一只猫", "用户有一只猫", "entities", routing_key="猫")
    later = write(memory, model(script(tagging(tag(new, "我有一只猫")), cat)), [*TALK, new], mode="append")
    assert [c.statement for c in later.claims] == ["用户有一只猫"]


# --- 6.2.2


BROKEN: dict[str, dict[str, Any]] = {
    "while it tags": {TAGGING: [ModelFailed("away")], SUMMARY: [{"summary": ""}]},
    "while it sums up": {SUMMARY: [ModelFailed("away")]},
    "in every extractor": {
        TAGGING: [TAGS], SUMMARY: [{"summary": ""}], **{name: [ModelFailed("away")] for name in EXTRACTORS},
    },
}  # fmt: skip


@pytest.mark.parametrize("when", BROKEN)
def test_6_2_2_a_model_that_fails_leaves_the_words_and_a_retry_completes(memory: Memory, home: Path, when: str) -> None:
    result = write(memory, model(BROKEN[when]))
    assert (result.status, result.error_reason) == ("failed", "away")
    assert (page(home)["status"], page(home)["error_reason"]) == ("failed", "away")
    assert len((home / SESSION / "turns.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert marker(memory).fields["status"] == "failed"
    assert (entries(memory, "claim"), entries(memory, "chunk")) == ([], [])
    assert [e.fields["kept"] for e in entries(memory, "turn")] == [False] * 3, "found, and not remembered yet"
    assert len(memory.bind("acme", "lin").semantic_search("我住在上海。")) == 3
    assert memory.jobs() == []
    answers = good() if when != "in every extractor" else {name: good()[name] for name in (SUMMARY, *EXTRACTORS)}
    again = write(memory, model(answers))
    assert (again.status, again.counts["turns_already_there"]) == ("ok", 3)
    assert marker(memory).fields["status"] == page(home)["status"] == "completed"
    assert page(home)["error_reason"] is None
    claims = memory.claims("acme", "lin").items
    assert sorted(c.statement for c in claims) == ["User drinks green tea every morning", "用户住在上海"]
    assert len(entries(memory, "turn")) == 3
    assert memory.verify().notes == []


@pytest.mark.parametrize("when", BROKEN)
def test_6_2_2_under_best_effort_a_model_that_fails_costs_the_facts_only(memory: Memory, when: str) -> None:
    result = write(memory, model(BROKEN[when]), llm_policy="best_effort")
    assert (result.status, result.counts["facts_skipped_reason"]) == ("ok", "llm_error")
    assert "facts" in {d.what for d in result.degraded}
    assert (result.counts["events_written"], result.counts["facts_written"]) == (3, 0)
    assert all(e.fields["kept"] for e in entries(memory, "turn"))


def test_6_2_2_a_budget_that_is_used_up_says_so(home: Path) -> None:
    config = Config(llm=LlmConfig(max_tokens_per_write=20))
    with Memory(home, embedder=HashEmbedder(), config=config) as memory:
        failed = write(memory, model(good()))
        assert failed.status == "failed"
        assert "max_tokens_per_write" in failed.error_reason
        skipped = write(memory, model(good()), llm_policy="best_effort", session="b")
        assert skipped.counts["facts_skipped_reason"] == "budget"


def test_6_2_2_one_extractor_of_four_that_fails_is_told_and_the_others_go_on(memory: Memory) -> None:
    result = write(memory, model(script(TAGS, SHANGHAI, more={PREFERENCES: [ModelFailed("away")]})))
    assert result.status == "ok"
    assert [(d.what, "away" in d.why) for d in result.degraded if d.what == PREFERENCES] == [(PREFERENCES, True)]
    assert [c.statement for c in result.claims] == ["用户住在上海"]


def test_6_2_2_clean_up_takes_away_this_session_and_nothing_else(memory: Memory, home: Path) -> None:
    cat = {"turn_id": "c", "role": "user", "text": "我有一只猫。"}
    write(
        memory, model(script(tagging(kept=("c",)), fact(cat, "我有一只猫", "用户有一只猫", "entities"))), [cat], "other"
    )
    before = files(home, "/queue/")
    result = write(memory, model(BROKEN["while it tags"]), cleanup_on_failure=True)
    assert (result.status, result.error_reason) == ("failed", "away")
    assert "cleanup" in {d.what for d in result.degraded}
    assert files(home, "/queue/") == before
    assert entries(memory, "turn") == entries(memory, "session_marker") == []
    assert len(memory.bind("acme", "lin").messages_list(session_id="other").items) == 1
    assert memory.verify().ok
    assert write(memory, model(good())).status == "ok"


def test_6_2_2_clean_up_after_a_half_written_commit_takes_its_claims_out_of_the_nodes(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, write_node = memory.parts.archive, memory.parts.archive.write_node

    async def breaks(scope: Any, node: Any, **given: Any) -> Any:
        if node.key.shelf == "preferences":
            raise OSError("disk full")
        return await write_node(scope, node, **given)

    monkeypatch.setattr(archive, "write_node", breaks)
    result = write(memory, model(good()), cleanup_on_failure=True)
    assert result.status == "failed"
    assert "disk full" in result.error_reason
    assert (in_nodes(memory), statements(memory), memory.status().sessions) == (set(), set(), 0)
    assert memory.verify().ok


def test_6_2_2_clean_up_never_takes_words_that_were_there_before(memory: Memory) -> None:
    write(memory, None, extract=False)
    new = {"turn_id": "t4", "role": "user", "text": "新的话"}
    result = write(memory, model(BROKEN["while it tags"]), [*TALK, new], mode="append", cleanup_on_failure=True)
    assert result.status == "failed"
    assert any(d.what == "cleanup" and "nothing was taken away" in d.why for d in result.degraded)
    assert len(memory.bind("acme", "lin").messages_list().items) == 4, "what was said is found, whatever came of it"
    write(memory, model(good()), [*TALK, new], mode="append", llm_policy="best_effort")
    assert len(memory.bind("acme", "lin").messages_list().items) == 4


# --- 6.3 and the extractors


def test_6_3_every_field_of_a_fact_arrives(memory: Memory) -> None:
    plan = {"turn_id": "p", "role": "user", "text": "Please submit the tax report for me by 2026-03-31, it is urgent."}
    task = fact(
        plan, "submit the tax report for me by 2026-03-31", "Submit the tax report by 2026-03-31", "tasks",
        op="ADD", title="tax report", status="open", scope="temporary", importance="high", routing_key="tax report",
        rationale="it is urgent", overview="- tax report", content="submit the tax report by 2026-03-31",
        entity_names=["tax report"], confidence=0.8,
    )  # fmt: skip
    result = write(memory, model(script(tagging(kept=("p",)), task)), [plan])
    (claim,) = result.claims
    assert (claim.kind, claim.shelf, claim.title, claim.status) == ("task", "tasks", "tax report", "open")
    assert (claim.governance.forget_policy, claim.governance.ttl_seconds) == ("temporary", 30 * 86_400)
    assert (claim.governance.importance_level, claim.confidence, claim.rationale) == ("high", 0.8, "it is urgent")
    assert (claim.session_id, claim.source_turn_ids, claim.entities) == ("s", ("p",), ("tax report",))
    assert (claim.overview, claim.content) == ("- tax report", "submit the tax report by 2026-03-31")


def test_6_3_four_extractors_at_once_and_never_more_than_allowed(home: Path) -> None:
    for allowed in (1, 2, 4):
        config = Config(pipeline=PipelineConfig(extraction_concurrency=allowed))
        with Memory(home / str(allowed), embedder=HashEmbedder(), config=config) as memory:
            llm = AtOnce(by_prompt=good())
            assert write(memory, llm).status == "ok"
            assert llm.most == allowed


def test_6_3_claims_speak_the_language_of_their_words_and_give_absolute_dates(memory: Memory) -> None:
    trip = {
        "turn_id": "t1", "role": "user", "text": "我明天搬到杭州。", "timestamp_iso": "2026-03-09T10:00:00+08:00",
    }  # fmt: skip
    vague = fact(trip, "我明天搬到杭州", "用户明天搬到杭州", "events", routing_key="搬家")
    foreign = fact(trip, "我明天搬到杭州", "User moves to 杭州", "events", routing_key="搬家")
    dated = fact(trip, "我明天搬到杭州", "用户 2026-03-10 搬到杭州", "events", routing_key="搬家")
    answers: list[Any] = [{"facts": [vague, foreign]}, {"facts": [vague, foreign, dated]}]
    result = write(memory, model(script(tagging(tag(trip, "我明天搬到杭州")), more={ENTITY_EVENT: answers})), [trip])
    assert [(c.statement, c.language) for c in result.claims] == [("用户 2026-03-10 搬到杭州", "zh")]
    reasons = {r.text: r.reason for r in result.rejected}
    assert "absolute date" in reasons["用户明天搬到杭州"]
    assert "language" in reasons["User moves to 杭州"]


# --- 6.5 and 8


def test_6_5_the_result_says_who_was_asked_and_how_long_it_took(memory: Memory) -> None:
    result = write(memory, model(good()))
    assert result.debug["llm_used"] == {"provider": "scripted", "model": "scripted-1", "byok": False}
    spent = result.debug["latency_ms"]
    assert {"extract_ms", "write_ms", "total_ms"} <= set(spent)
    assert spent["total_ms"] >= spent["extract_ms"] > 0
    assert [c["task"] for c in result.debug["calls"]].count(TAGGING) == 1
    assert result.debug["spent"]["input_tokens"] == 60
    words_only = write(memory, None, extract=False, session="b")
    assert words_only.debug["llm_used"] is None
    assert words_only.debug["latency_ms"]["extract_ms"] == 0


def test_8_a_callers_key_is_used_and_appears_nowhere(
    memory: Memory, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-lin-0123456789abcdef"
    caplog.set_level(logging.DEBUG)
    with llm_server(_answer) as server:
        server.script = ["401"]
        mine = {"provider": "openai", "model": "m-1", "api_key": key, "base_url": f"{server.url}/v1"}
        failed = write(memory, mine)
        result = write(memory, mine)
    assert any(key in asked.headers["authorization"] for asked in server.asked)
    assert (failed.status, result.status) == ("failed", "ok")
    assert result.debug["llm_used"] == {"provider": "openai", "model": "m-1", "byok": True}
    assert [c.statement for c in result.claims] == ["用户住在上海"]
    for told in (repr(failed), repr(result), caplog.text):
        assert key not in told
    for path in home.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()


def _answer(said: str) -> dict[str, Any]:
    if "# tagging.value_tags" in said:
        return TAGS
    if "# compression" in said:
        return {"summary": ""}
    return {"facts": [SHANGHAI] if f"# {PROFILE}" in said else []}


# --- waiting, and two-phase visibility


def test_archived_returns_before_the_model_is_asked_and_the_worker_completes(quiet: Memory, home: Path) -> None:
    llm = model(good())
    result = write(quiet, llm, wait="archived")
    assert (result.status, llm.asked) == ("ok", [])
    assert "digest_pending" in {d.what for d in result.degraded}
    assert page(home)["status"] == "in_progress"
    assert (len(quiet.bind("acme", "lin").messages_list().items), statements(quiet)) == (3, set())
    assert quiet.run_jobs().succeeded == 1
    assert llm.left == 0
    assert page(home)["status"] == "completed"
    assert statements(quiet) == {"用户住在上海", "User drinks green tea every morning"}
    assert quiet.jobs() == []
    assert quiet.verify().notes == []


def test_a_lent_model_does_not_outlive_its_process_and_its_job_waits_for_another(home: Path, clock: FixedClock) -> None:
    with Memory(home, embedder=HashEmbedder(), config=RULES, clock=clock) as memory:
        write(memory, model(good()), wait="archived")
    with Memory(home, embedder=HashEmbedder(), config=RULES, clock=clock) as memory:
        assert memory.run_jobs().failed == 0
        assert page(home)["status"] == "in_progress"
        (job,) = memory.jobs()
        assert (job.awaits, job.attempts) == ("model", 0)
        assert "language model" in str(job.error)
    with Memory(home, embedder=HashEmbedder(), config=RULES, clock=clock, llm=model(good())) as memory:
        assert memory.run_jobs().succeeded == 1
        assert statements(memory) == {"用户住在上海", "User drinks green tea every morning"}


def test_a_reader_sees_a_long_session_wholly_or_not_at_all(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH", 10)
    for module in ("session", "keeping"):
        monkeypatch.setattr(f"mnemon.pipelines.write.{module}.BATCH", 10)
    turns = [{"turn_id": f"{n:03}", "role": "user", "text": f"我喜欢第{n}号公园。"} for n in range(64)]
    seen: set[tuple[int, int]] = set()

    async def story() -> None:
        many = 500
        config = Config(
            background_worker=False,
            pipeline=PipelineConfig(max_candidates_per_commit=many),
            commit=CommitConfig(max_candidates_per_commit=many),
        )
        async with AsyncMemory(home, embedder=HashEmbedder(), config=config, llm="rules") as memory:
            upsert, publish = memory.parts.index.upsert, memory.parts.index.publish

            async def look() -> None:
                words = await memory.bind("acme", "lin").messages_list(page_size=200)
                claims = await memory.claims("acme", "lin", limit=200)
                seen.add((len(words.items), len(claims.items)))

            def watched(step: Any) -> Any:
                async def call(*args: Any) -> Any:
                    await look()
                    result = await step(*args)
                    await look()
                    return result

                return call

            monkeypatch.setattr(memory.parts.index, "upsert", watched(upsert))
            monkeypatch.setattr(memory.parts.index, "publish", watched(publish))
            await memory.session_write("acme", "lin", "s", turns=turns)
            assert (await memory.verify()).notes == []

    asyncio.run(story())
    assert len(seen) == 2
    assert (0, 0) in seen
    assert max(seen)[0] == 64
    assert max(seen)[1] > 20


def test_a_crash_before_the_session_is_shown_does_not_hide_it_for_good(
    quiet: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH", 2)
    for module in ("session", "keeping"):
        monkeypatch.setattr(f"mnemon.pipelines.write.{module}.BATCH", 2)

    async def dies(*args: Any) -> int:
        raise ModelFailed("stands for a crash")

    with monkeypatch.context() as patched:
        patched.setattr(quiet.parts.index, "publish", dies)
        result = write(quiet, model(good()))
    assert "index_pending" in {d.what for d in result.degraded}
    assert quiet.bind("acme", "lin").messages_list().items == ()
    quiet.repair()
    assert len(quiet.bind("acme", "lin").messages_list().items) == 3
    assert statements(quiet) == {"用户住在上海", "User drinks green tea every morning"}


# --- 10.2


def test_10_2_users_and_tenants_never_see_each_others_claims(memory: Memory) -> None:
    write(memory, model(good()))
    assert memory.claims("acme", "wang", state=None).items == ()
    assert memory.claims("other", "lin", state=None).items == ()
    assert memory.nodes("acme", "wang") == memory.nodes("other", "lin") == []


def test_10_2_a_product_shares_claims_written_for_it(memory: Memory) -> None:
    write(memory, model(good()), product_id="app", visibility="product")
    assert len(memory.claims("acme", "wang", product_id="app").items) == 2
    assert memory.claims("acme", "wang").items == ()


def test_words_are_never_rewritten(memory: Memory) -> None:
    write(memory, model(good()))
    with pytest.raises(Conflict) as caught:
        write(memory, ScriptedLLM(), [{**LIVES, "text": "我住在北京。"}], mode="append")
    assert caught.value.turn_id == "t1"
    assert statements(memory) == {"用户住在上海", "User drinks green tea every morning"}
