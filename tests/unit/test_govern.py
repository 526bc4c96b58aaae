"""What people decide about memories, how memories end, and that what is forgotten is gone."""

from __future__ import annotations

import functools
import gc
import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory, Scope, Span, errors
from mnemon.contracts.claims import Claim
from mnemon.contracts.nodes import Edge
from mnemon.contracts.results import SweepResult
from mnemon.contracts.scope import Owner
from mnemon.drivers import sqlite_file
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import LlmConfig
from mnemon.logic.masking import recut, still_rests
from mnemon.logic.shelves import key_at
from mnemon.pipelines.govern.quotas import Quotas
from mnemon.pipelines.jobs import node_job
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

QUIET = Config(background_worker=False)
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAY = 86_400


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    embedder = CachedEmbedder(HashEmbedder(), tmp_path / "home" / "embeddings.db")
    with Memory(tmp_path / "home", llm="rules", embedder=embedder, config=QUIET, clock=clock) as opened:
        yield opened


def say(memory: Memory, session: str, *texts: str, user: str = "lin", **options: Any) -> Any:
    turns = [{"role": "user", "text": text} for text in texts]
    result = memory.session_write("acme", user, session, turns=turns, **options)
    assert result.status == "ok", result.error_reason
    return result


def statements(memory: Memory, state: str | None = "active", user: str = "lin") -> list[str]:
    return sorted(c.statement for c in memory.claims("acme", user, state=state).items)


def the_claim(memory: Memory, part: str, state: str | None = "active") -> Claim:
    (found,) = [c for c in memory.claims("acme", "lin", state=state).items if part in c.statement]
    return found


def everywhere(home: Path, words: str) -> list[Path]:
    """Every file under a folder that still holds these words, in any form they could be written."""
    forms = [words.encode(), json.dumps(words)[1:-1].encode(), words.encode("utf-16-le")]
    return [p for p in sorted(home.rglob("*")) if p.is_file() and any(f in p.read_bytes() for f in forms)]


def ledger(memory: Memory) -> list[str]:
    path = Path(memory.parts.home)
    lines = [json.loads(line) for p in sorted(path.rglob("ledger/*.jsonl")) for line in p.read_text().splitlines()]
    return [line["body"]["op"] for line in lines]


# --- how memories end


def test_a_task_disappears_from_every_read_the_moment_it_is_over(memory: Memory, clock: FixedClock) -> None:
    say(memory, "s1", "周五之前把合同发给老周。", "我对花生过敏。")
    assert [s for s in statements(memory) if "合同" in s]
    clock.tick(days=30)
    assert not [s for s in statements(memory, None) if "合同" in s]
    with pytest.raises(errors.NotFound):
        memory.claim("acme", "lin", memory.parts.archive and _id_in_file(memory, "合同"))
    assert [s for s in statements(memory) if "花生" in s], "what has time left stays"


def _id_in_file(memory: Memory, part: str) -> str:
    for path in Path(memory.parts.home).rglob("claims.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if part in row.get("statement", ""):
                return str(row["claim_id"])
    raise AssertionError(part)


def test_the_sweep_excludes_first_and_removes_after_the_grace_and_writes_both_down(
    memory: Memory, clock: FixedClock
) -> None:
    say(memory, "s1", "周五之前把合同发给老周。", "我对花生过敏。")
    (task,) = memory.nodes("acme", "lin", "tasks")
    clock.tick(days=31)
    first = memory.sweep()
    assert (first.claims_excluded, first.claims_removed) == (1, 0)
    assert memory.nodes("acme", "lin", "tasks") == [], "a memory without a claim is gone"
    assert _id_in_file(memory, "合同"), "recoverable until the grace is over"
    assert memory.sweep().claims_excluded == 0, "once is enough"
    clock.tick(days=7)
    second = memory.sweep()
    assert (second.claims_excluded, second.claims_removed) == (0, 1)
    with pytest.raises(AssertionError):
        _id_in_file(memory, "合同")
    assert ledger(memory) == ["expired", "swept"]
    assert memory.verify().ok
    assert statements(memory) == ["用户对花生过敏"]
    assert task.uri


def test_a_memory_of_several_claims_loses_only_the_line_that_is_over(memory: Memory, clock: FixedClock) -> None:
    say(memory, "s1", "我在西门子工作。")
    clock.tick(days=100)
    say(memory, "s2", "我对花生过敏。")
    clock.tick(days=90)
    memory.sweep()
    (node,) = memory.nodes("acme", "lin", "profile")
    content = memory.node("acme", "lin", node.uri).content
    assert "花生" in content
    assert "西门子" not in content


# --- a clock that jumps


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_jumps_takes_nothing_away(tmp_path: Path, clock: FixedClock, days: int) -> None:
    """Ahead or back, swept, written to and read there, by one process or the next, and back again."""

    def opened() -> Memory:
        return Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET, clock=clock)

    with opened() as memory:
        say(memory, "s1", "我对花生过敏。我在西门子工作。", "I like basil soup.")
        known = statements(memory)
        (profile,) = memory.nodes("acme", "lin", "profile")
        clock.tick(days=days)
        statements(memory)  # a look at the clock is not a proof of it
        assert "the clock jumped 400 days" in memory.sweep().put_off
        say(memory, "s2", "I speak Norwegian.")
    with opened() as memory:
        clock.tick(hours=2)
        assert memory.sweep().put_off
        assert any("the clock jumped" in told for told in memory.status().warnings)
        clock.tick(days=-days)
        assert memory.sweep() == SweepResult()
        assert {*known, "User speaks Norwegian"} == {*statements(memory)}
        content = memory.node("acme", "lin", profile.uri).content
        assert "花生" in content
        assert "西门子" in content
        assert not any("the clock jumped" in told for told in memory.status().warnings)
        assert memory.verify().ok


def test_a_clock_is_believed_again_when_it_went_on_for_the_grace_or_somebody_says_so(
    memory: Memory, clock: FixedClock
) -> None:
    say(memory, "s1", "周五之前把合同发给老周。")
    clock.tick(days=400)
    assert memory.sweep().put_off
    for _ in range(6):
        clock.tick(days=1)
        assert memory.sweep().put_off
    clock.tick(days=1)
    assert memory.sweep().claims_excluded == 1
    clock.tick(days=6)
    assert memory.sweep().claims_removed == 0, "the grace counts from when it was taken out of sight"
    clock.tick(days=1)
    assert memory.sweep().claims_removed == 1
    say(memory, "s2", "周六之前把合同发给老周。")
    clock.tick(days=400)
    assert memory.sweep(trust_clock=True).claims_excluded == 1
    assert not memory.sweep().put_off


def test_what_a_clock_a_little_ahead_took_out_of_sight_comes_back(memory: Memory, clock: FixedClock) -> None:
    say(memory, "s1", "周五之前把合同发给老周。", "我对花生过敏。")
    known = statements(memory)
    clock.tick(days=40)
    assert memory.sweep().claims_excluded == 1
    clock.tick(days=-40)
    assert memory.sweep().claims_restored == 1
    assert statements(memory) == known
    assert len(memory.nodes("acme", "lin", "tasks")) == 1
    assert memory.verify().ok


@pytest.mark.parametrize("days", [-2, -400, 2, 400])
def test_what_comes_later_is_later_whatever_the_clock_says(memory: Memory, clock: FixedClock, days: int) -> None:
    for session, city, then in (("s1", "Rome", days), ("s2", "Oslo", 0), ("s3", "Bergen", -days), ("s4", "Paris", 0)):
        say(memory, session, f"I live in {city} now.")
        assert statements(memory) == [f"User lives in {city} now"]
        clock.tick(days=then, hours=1)
    dated = {"role": "user", "text": "I live in Lima now.", "timestamp_iso": "2020-01-01T00:00:00Z"}
    memory.session_write("acme", "lin", "s5", turns=[dated])
    assert statements(memory) == ["User lives in Paris now"], "a time somebody gave stays as it is"


def test_of_what_is_said_in_one_call_the_last_holds(memory: Memory) -> None:
    for n, (first, last) in enumerate([("Rome", "Oslo"), ("Oslo", "Rome")] * 4):
        say(memory, f"s{n}", f"I live in {first}.", f"I live in {last} now.", user=f"u{n}")
        assert statements(memory, user=f"u{n}") == [f"User lives in {last} now"]


# --- what people decide


def uncertain(statement: str, quote: str) -> ScriptedLLM:
    span = {"start": 0, "end": len(quote), "text_exact": quote}
    tag = {
        "tag_id": "m1", "turn_id": "t0001", "span": span, "category": "fact", "evidence_level": "S0_user_claim",
        "requires_confirmation": True, "importance": 0.9, "ttl_seconds": 0, "forget_policy": "permanent",
        "write_action": "write_fact",
    }  # fmt: skip
    fact = {
        "type": "fact", "category": "profile", "routing_key": "work", "statement": statement, "confidence": 0.9,
        "spans": [{"turn_id": "t0001", **span}],
    }  # fmt: skip
    nothing: dict[str, Any] = {"facts": []}
    return ScriptedLLM(
        by_prompt={
            "tagging.value_tags": [{"kept_turn_ids": ["t0001"], "tags": [tag]}],
            "extraction.profile": [{"facts": [fact]}],
            "extraction.preferences": [nothing],
            "extraction.entity_event": [nothing],
            "extraction.procedure": [nothing],
        }
    )


@pytest.fixture
def pending(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    llm = uncertain("User works at Siemens", "I work at Siemens")
    with Memory(tmp_path, llm=llm, embedder=HashEmbedder(), config=QUIET, clock=clock) as memory:
        result = say(memory, "s1", "I work at Siemens, I think.")
        assert result.counts["facts_pending"] == 1
        yield memory


def test_an_uncertain_claim_waits_and_is_no_knowledge(pending: Memory) -> None:
    assert statements(pending) == []
    assert pending.nodes("acme", "lin") == []
    assert [c.statement for c in pending.pending("acme", "lin").items] == ["User works at Siemens"]
    assert not pending.bind("acme", "wang").messages_list().items
    assert pending.verify().ok


def test_a_confirmed_claim_becomes_knowledge_with_the_users_word(pending: Memory) -> None:
    (waiting,) = pending.pending("acme", "lin").items
    sure = pending.confirm("acme", "lin", waiting.claim_id)
    assert (sure.state, sure.governance.evidence_level, sure.expires_at) == ("active", "S3_user_confirmed", None)
    assert statements(pending) == ["User works at Siemens"]
    (node,) = pending.nodes("acme", "lin", "profile")
    assert "I work at Siemens" in pending.node("acme", "lin", node.uri).content
    assert not pending.pending("acme", "lin").items
    assert ledger(pending) == ["confirm"]
    with pytest.raises(errors.Conflict, match="only a pending one"):
        pending.confirm("acme", "lin", waiting.claim_id)
    assert pending.verify().ok


def test_a_rejected_claim_is_gone(pending: Memory) -> None:
    (waiting,) = pending.pending("acme", "lin").items
    pending.reject("acme", "lin", waiting.claim_id)
    assert statements(pending, None) == []
    assert not pending.pending("acme", "lin").items
    assert not pending.nodes("acme", "lin")
    assert pending.bind("acme", "lin").lexical_search("Siemens").items, "the words stay"
    assert pending.verify().ok


def test_nobody_decides_about_somebody_elses_claims(pending: Memory) -> None:
    (waiting,) = pending.pending("acme", "lin").items
    for act in (pending.confirm, pending.reject, pending.claim):
        with pytest.raises(errors.NotFound):
            act("acme", "wang", waiting.claim_id)
    with pytest.raises(errors.NotFound):
        pending.forget("acme", "wang", claim_id=waiting.claim_id)


def test_a_corrected_claim_keeps_its_evidence_and_its_history(memory: Memory) -> None:
    say(memory, "s1", "I work at Siemens.")
    old = the_claim(memory, "Siemens")
    new = memory.correct("acme", "lin", old.claim_id, "User works at Siemens Energy", "the user wrote in")
    assert (new.claim_id, new.statement, new.spans) == (old.claim_id, "User works at Siemens Energy", old.spans)
    assert new.corrected_from == old.statement
    (node,) = memory.nodes("acme", "lin", "profile")
    assert "Siemens Energy" in memory.node("acme", "lin", node.uri).content
    assert [r.reason for r in memory.node_history("acme", "lin", node.uri)], "the version before is kept"
    assert statements(memory) == ["User works at Siemens Energy"]
    with pytest.raises(errors.InvalidArgument, match="statement"):
        memory.correct("acme", "lin", old.claim_id, "  ")
    assert memory.verify().ok


def test_what_a_person_wrote_into_the_file_stays(memory: Memory) -> None:
    say(memory, "s1", "I love spicy food.")
    (node,) = memory.nodes("acme", "lin", "preferences")
    (path,) = Path(memory.parts.home).rglob("preferences/*/content.md")
    path.write_text(path.read_text() + "\nAsk about the hotpot place in Chengdu.\n")
    assert [d.kind for d in memory.verify().defects] == ["edited"]
    repaired = memory.repair()
    assert any("edited by hand" in r.what for r in repaired.repairs) or repaired.reindexed_nodes == 1
    assert memory.verify().ok
    assert memory.verify().notes == []
    say(memory, "s2", "I hate mushrooms.")
    content = memory.node("acme", "lin", node.uri).content
    assert content.index("Ask about the hotpot place") < content.index("I hate mushrooms")
    assert memory.verify().ok


# --- forgetting

SECRET = "我在西门子工作，工号七四一八。"


def test_a_forgotten_session_leaves_no_word_in_any_file(memory: Memory, tmp_path: Path) -> None:
    say(memory, "keep", "我在博世工作。")
    say(memory, "gone", SECRET)
    say(memory, "later", "我在华为工作。")
    home = tmp_path / "home"
    assert len(everywhere(home, "西门子")) > 3
    receipt = memory.forget("acme", "lin", session_id="gone")
    assert receipt.complete
    assert receipt.removed["turns"] == 1
    assert receipt.removed["claims"] >= 1
    assert everywhere(home, "西门子") == []
    assert everywhere(home, "七四一八") == []
    report = memory.verify()
    assert report.ok
    assert report.notes == []
    assert [s for s in statements(memory, None) if "博世" in s], "the others stay"
    assert "博世" in memory.node("acme", "lin", memory.nodes("acme", "lin", "profile")[0].uri).content
    again = say(memory, "gone", SECRET, mode="append")
    assert again.counts["events_written"] == 0, "what was forgotten does not come back"
    assert everywhere(home, "西门子") == []


def test_a_forgotten_claim_takes_its_words_and_whatever_else_cites_them(memory: Memory, tmp_path: Path) -> None:
    say(memory, "s1", "我在西门子工作。", "我对花生过敏。")
    claim = the_claim(memory, "西门子")
    receipt = memory.forget("acme", "lin", claim_id=claim.claim_id)
    assert receipt.complete
    assert everywhere(tmp_path / "home", "西门子") == []
    assert statements(memory) == ["用户对花生过敏"]
    assert memory.verify().ok
    assert memory.verify().notes == []


def test_a_claim_can_be_forgotten_without_its_words(memory: Memory) -> None:
    say(memory, "s1", "我在西门子工作。")
    memory.forget("acme", "lin", claim_id=the_claim(memory, "西门子").claim_id, words=False)
    assert statements(memory, None) == []
    assert memory.bind("acme", "lin").lexical_search("西门子").items
    assert memory.verify().ok


def test_forgetting_the_later_word_lets_the_earlier_one_hold_again(memory: Memory, clock: FixedClock) -> None:
    say(memory, "s1", "I love spicy food.")
    clock.tick(days=10)
    say(memory, "s2", "I don't like spicy food any more.")
    assert [c.session_id for c in memory.claims("acme", "lin").items] == ["s2"]
    memory.forget("acme", "lin", session_id="s2")
    (back,) = memory.claims("acme", "lin").items
    assert (back.session_id, back.valid_to, back.superseded_by) == ("s1", None, "")
    assert memory.verify().notes == []


def test_a_forgotten_person_is_gone_and_nobody_else(memory: Memory, tmp_path: Path) -> None:
    say(memory, "s1", SECRET)
    say(memory, "s1", "我在博世工作。", user="wang")
    memory.session_write(
        "acme", "lin", "wifi", turns=[{"role": "user", "text": "西门子的无线密码写在墙上。"}],
        product_id="app", visibility="product",
    )  # fmt: skip
    receipt = memory.forget("acme", "lin")
    assert receipt.complete
    assert everywhere(tmp_path / "home", "西门子") == []
    assert [p for p in (tmp_path / "home").rglob("*") if p.name == "lin"] == []
    assert statements(memory, user="wang") == ["用户在博世工作"]
    assert memory.verify().ok
    assert memory.verify().notes == []
    assert memory.forget("acme", "lin").complete, "forgetting twice is no error"


def test_a_forgotten_tenant_is_gone_and_no_other(memory: Memory, tmp_path: Path) -> None:
    say(memory, "s1", SECRET)
    memory.session_write("other", "lin", "s1", turns=[{"role": "user", "text": "我在博世工作。"}])
    with pytest.raises(errors.InvalidArgument, match="everything"):
        memory.forget("acme")
    receipt = memory.forget("acme", everything=True)
    assert receipt.complete
    assert everywhere(tmp_path / "home", "西门子") == []
    assert not (tmp_path / "home" / "tenants" / "acme").exists()
    assert [c.statement for c in memory.claims("other", "lin").items] == ["用户在博世工作"]
    assert memory.verify().ok


@pytest.mark.parametrize("comes_next", ["run_jobs", "repair", "forget", "open"])
def test_a_forgetting_that_was_cut_off_is_finished_by_whoever_comes_next(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_next: str
) -> None:
    home = tmp_path / "home"
    say(memory, "s1", SECRET)

    async def cut_off(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(memory.parts.archive), "erase_session", cut_off)
        with pytest.raises(KeyboardInterrupt):
            memory.forget("acme", "lin", session_id="s1")
    assert everywhere(home, "西门子")
    (promise,) = (home / "forgetting").iterdir()
    assert not any(word in promise.read_text(encoding="utf-8") for word in ("西门子", "工号", "七四一八"))
    assert "1 forgettings" in memory.status().warnings[-1]
    match comes_next:
        case "run_jobs" | "repair":
            getattr(memory, comes_next)()
        case "forget":
            assert memory.forget("acme", "lin", session_id="s1").complete
        case "open":
            with Memory(home, llm="rules", embedder=HashEmbedder(), config=Config()) as other:
                other.start_worker()
                deadline = time.monotonic() + 30
                while list((home / "forgetting").iterdir()) and time.monotonic() < deadline:
                    time.sleep(0.05)
    assert everywhere(home, "西门子") == []
    assert list((home / "forgetting").iterdir()) == []
    assert not [w for w in memory.status().warnings if "forgetting" in w]
    assert memory.verify().ok


def test_a_receipt_comes_from_a_look_at_every_file_and_names_what_is_left(memory: Memory, tmp_path: Path) -> None:
    home = tmp_path / "home"
    say(memory, "s1", SECRET, "Thank you very much.")
    say(memory, "s1", "Thank you very much.", user="wang")
    copy = home / "tenants" / "acme" / "users" / "lin" / "抄本.txt"
    copy.write_text(f"copied: {SECRET}\n", encoding="utf-8")
    receipt = memory.forget("acme", "lin", session_id="s1")
    assert (receipt.complete, receipt.left) == (False, ("tenants/acme/users/lin/抄本.txt",))
    assert everywhere(home, "西门子") == [copy]
    copy.unlink()
    receipt = memory.forget("acme", "lin", session_id="s1")
    assert receipt.complete
    assert receipt.scanned["files"] > 10
    assert receipt.scanned["pieces"] > receipt.scanned["said_elsewhere"] > 0, "somebody else said thank you too"


def test_what_a_reader_holds_back_is_named_and_goes_when_he_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.1)
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET) as memory:
        say(memory, "s1", SECRET)
        reader = sqlite3.connect(tmp_path / "index.db", isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM entry").fetchone()[0]
        receipt = memory.forget("acme", "lin", session_id="s1")
        assert not receipt.complete
        assert set(receipt.left) <= {"index.db", "index.db-wal"}
        reader.close()
        assert memory.forget("acme", "lin", session_id="s1").complete
        assert everywhere(tmp_path, "西门子") == []


TALK = ("I love zanzibarxylophone soup. I live in Oslo, and I hate olives.", "我喜欢吃貔貅糕，我住在上海。")


def test_one_claim_is_forgotten_without_its_neighbours(memory: Memory, tmp_path: Path) -> None:
    home = tmp_path / "home"
    say(memory, "s1", *TALK)
    before = {c.claim_id: c for c in memory.claims("acme", "lin", state=None).items}
    for part in ("zanzibarxylophone", "貔貅"):
        claim = the_claim(memory, part)
        receipt = memory.forget("acme", "lin", claim_id=claim.claim_id)
        assert (receipt.complete, receipt.removed["claims"], receipt.removed["turns_masked"]) == (True, 1, 1)
        assert everywhere(home, part) == []
        assert [p for p in home.rglob("*") if part in p.name] == []
        del before[claim.claim_id]
        with pytest.raises(errors.NotFound):
            memory.forget("acme", "lin", claim_id=claim.claim_id)
    words = [m.content for m in memory.bind("acme", "lin").messages_list().items][::-1]
    assert words == [f"{'█' * 29}. I live in Oslo, and I hate olives.", f"{'█' * 7}，我住在上海。"]

    def the_rest() -> dict[str, Claim]:
        return {c.claim_id: c for c in memory.claims("acme", "lin", state=None).items}

    assert the_rest() == before, "with their quotes, word for word"
    assert (memory.verify().defects, memory.verify().notes) == ([], [])
    assert say(memory, "s1", *TALK, mode="append").counts["events_written"] == 0, "and it does not come back"
    memory.rebuild()
    assert the_rest() == before
    assert [hit.message.content for hit in memory.bind("acme", "lin").lexical_search("olives").items] == words[:1]
    assert everywhere(home, "zanzibarxylophone") == []


def test_a_neighbour_stays_with_the_words_that_are_left_or_goes_with_those_it_rests_on(memory: Memory) -> None:
    say(memory, "s1", TALK[0])
    soup, oslo = the_claim(memory, "soup"), the_claim(memory, "Oslo")
    text = TALK[0]
    masks = {soup.spans[0].turn_id: [(soup.spans[0].start, soup.spans[0].end)]}
    said = [soup.spans[0].text_exact]
    whole = Span(turn_id=oslo.spans[0].turn_id, start=0, end=len(text), text_exact=text)
    wide = oslo.model_copy(update={"spans": (whole,)})
    assert still_rests(wide, masks, said)
    (span,) = recut(wide, masks).spans
    assert span.text_exact == f"{'█' * 29}. I live in Oslo, and I hate olives."
    for statement in ("User lives on zanzibarxylophone", f"User said: {said[0]}", "用户住在挪威"):
        assert not still_rests(wide.model_copy(update={"statement": statement}), masks, said)
    assert still_rests(oslo, masks, said), "what does not touch the words is not asked"


def test_a_forgotten_memory_is_named_by_nothing(memory: Memory, tmp_path: Path) -> None:
    """Not by who said it again, an edge of another memory, another session's commit, or a job that waits."""
    say(memory, "s1", TALK[0])
    say(memory, "s2", "Did I say? I love zanzibarxylophone soup.")
    loop, archive, owner = memory._loop, memory.parts.archive, Owner.user("lin")
    uris = [n.uri for n in memory.nodes("acme", "lin")]
    (soup,) = [uri for uri in uris if "zanzibarxylophone" in uri]
    olives = key_at("acme", owner, next(uri for uri in uris if "olives" in uri))
    scope = Scope.steward_of("acme")
    loop.run(archive.upsert_edges(scope, olives, [Edge(olives.uri, soup, "related_to", "both are eaten")]))
    loop.run(memory.parts.queue.put([node_job(key_at("acme", owner, soup))]))
    receipt = memory.forget("acme", "lin", claim_id=the_claim(memory, "soup").claim_id)
    assert receipt.complete
    assert loop.run(archive.get_edges(scope, olives)) == []
    assert everywhere(tmp_path / "home", "zanzibarxylophone") == []
    assert memory.verify().ok


# --- limits


def test_a_write_that_would_cost_too_much_is_stopped_and_told(tmp_path: Path) -> None:
    llm = uncertain("User works at Siemens", "I work at Siemens")
    config = Config(background_worker=False, llm=LlmConfig(max_tokens_per_write=1))
    with Memory(tmp_path, llm=llm, embedder=HashEmbedder(), config=config) as memory:
        turns = [{"role": "user", "text": "I work at Siemens, I think."}]
        result = memory.session_write("acme", "lin", "s1", turns=turns)
        assert result.status == "failed"
        assert "max_tokens_per_write" in str(result.error_reason)
        assert result.debug["spent"]["input_tokens"] >= 1
        result = memory.session_write(
            "acme", "lin", "s2", turns=turns, llm=uncertain("x", "I"), llm_policy="best_effort"
        )
        assert (result.status, result.counts["facts_skipped_reason"]) == ("ok", "budget")


@pytest.mark.parametrize(
    ("quota", "who"), [("max_turns_per_user", "lin"), ("max_turns_per_tenant", "wang"), ("max_claims_per_user", "lin")]
)
def test_a_quota_is_checked_before_the_first_byte(tmp_path: Path, quota: str, who: str) -> None:
    limit = 1 if "claims" in quota else 2
    config = Config(background_worker=False, quotas=Quotas(**{quota: limit}))
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config) as memory:
        say(memory, "s1", "我对花生过敏。", "好的")
        with pytest.raises(errors.ResourceExhausted, match=f"quotas.{quota}"):
            say(memory, "s2", "我在西门子工作。", user=who)
        assert not list(tmp_path.rglob("sessions/s2"))


def test_what_is_forgotten_is_in_no_cache_of_the_process_either(memory: Memory) -> None:
    say(memory, "s1", SECRET)
    kept = [c for c in gc.get_objects() if isinstance(c, functools._lru_cache_wrapper)]
    ours = [c for c in kept if c.__module__.startswith("mnemon.logic.") and c.cache_info().currsize]
    assert ours, "something was remembered"
    memory.forget("acme", "lin")
    no_words = (
        "mnemon.logic.paths",
        "mnemon.logic.ids",
        "mnemon.logic.operations",
        "mnemon.logic.retrieval.ranking_data",
    )
    about_words = [c for c in ours if c.__module__ not in no_words and c.__qualname__ != "_blank"]  # types, no words
    assert [c.__qualname__ for c in about_words if c.cache_info().currsize] == []
