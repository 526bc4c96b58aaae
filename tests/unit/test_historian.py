"""The historian: a bot's turn becomes an absolute event and a line of a profile, each with the words that prove it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory, errors
from mnemon.contracts.chats import Alert
from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.cognitive import CognitiveConfig, HistorianConfig
from mnemon.contracts.governance import EvidenceLevel
from mnemon.drivers.embed.cache import CachedEmbedder
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

QUIET = Config(background_worker=False)
START = datetime(2026, 2, 21, 6, 30, tzinfo=UTC)
AT = "2026-02-21T14:30:00+08:00"
GROUP: dict[str, Any] = {"group_id": "g1", "group_name": "技术群", "sender_id": "1708", "sender_name": "Null"}
PRIVATE: dict[str, Any] = {"user_id": "1708", "sender_name": "Null"}
SAID = {"message_id": "m1", "sender_id": "1708", "sender_name": "Null", "text": "我昨天搬到了杭州。明天会下雨吗？"}
TURN: dict[str, Any] = {"action_summary": "告诉他这里明天会下雨", "new_info": "用户昨天搬到了杭州"}
RAIN = "2026-02-21 14:30 小忆在技术群告诉 Null 杭州 2026-02-22 会下雨；Null 2026-02-20 搬到了杭州"
GOOD = {
    "did_what": "小忆告诉 Null 杭州 2026-02-22 会下雨",
    "new_info": "Null 2026-02-20 搬到了杭州",
    "canonical_text": RAIN,
    "about": "user",
    "topic": "residence",
    "tags": ["杭州"],
}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


def opened(home: Path, clock: FixedClock, llm: Any = "rules", config: Config = QUIET) -> Memory:
    embedder = CachedEmbedder(HashEmbedder(), home / "embeddings.db")
    return Memory(home, llm=llm, embedder=embedder, config=config, clock=clock)


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[Memory]:
    with opened(tmp_path / "home", clock) as made:
        yield made


def end(memory: Memory, request: str = "req", seq: int = 1, **given: Any) -> None:
    call: dict[str, Any] = {
        "timestamp": AT,
        "timezone": "Asia/Shanghai",
        "bot_name": "小忆",
        "location": "杭州",
        **given,
    }
    memory.end("t", request, seq, **call)


def done(memory: Memory) -> None:
    """Everything that is due, without a failure."""
    while (round_ := memory.run_jobs()).claimed:
        assert not round_.failed, [job.error for job in memory.jobs()]


def claims(memory: Memory, shelf: str, group: str | None = "g1", state: str | None = "active") -> list[Claim]:
    return list(memory.claims("t", "1708", group_id=group, shelf=shelf, state=state).items)


def event(memory: Memory, group: str | None = "g1") -> Claim:
    (found,) = [c for c in claims(memory, "events", group) if c.occasion and not c.occasion.perspective]
    return found


# --- events


def test_an_event_says_who_when_and_where_and_carries_every_field_of_the_occasion(memory: Memory) -> None:
    end(memory, **TURN, **GROUP, messages=[SAID])
    done(memory)
    found = event(memory)
    assert found.statement == (
        "2026-02-21 14:30，小忆在群「技术群」里与Null对话（地点：杭州）："
        "告诉Null杭州2026-02-22会下雨；新信息：Null 2026-02-20搬到了杭州"
    )
    assert found.occasion is not None
    told = found.occasion.model_dump(mode="json")
    assert told == told | {
        "event_id": "req:1",
        "request_id": "req",
        "end_seq": 1,
        "timestamp_utc": "2026-02-21T06:30:00+00:00",
        "timestamp_local": AT,
        "timezone": "Asia/Shanghai",
        "location_abs": "杭州",
        "request_type": "group",
        "user_id": "1708",
        "group_id": "g1",
        "sender_id": "1708",
        "message_ids": ["m1"],
        "has_new_info": True,
        "schema_version": "final_v1",
        "is_absolute": True,
    }


def test_an_event_rests_on_the_messages_word_for_word_and_on_the_bots_own_note(memory: Memory) -> None:
    end(memory, **TURN, **GROUP, messages=[SAID])
    done(memory)
    words = [span.text_exact for span in event(memory).spans]
    assert words == [SAID["text"], "告诉他这里明天会下雨\n用户昨天搬到了杭州"]
    assert memory.verify().ok
    messages = memory.bind("t", "1708", group_id="g1").messages_list().items
    assert {m.content for m in messages} == set(words), "the words are there for the message tools too"


def test_in_a_group_the_sender_has_a_view_of_his_own(memory: Memory) -> None:
    end(memory, **TURN, **GROUP, messages=[SAID])
    done(memory)
    views = {c.occasion.id: c.statement for c in claims(memory, "events") if c.occasion}
    assert views.keys() == {"req:1", "req:1#sender"}
    assert views["req:1#sender"] == "Null 2026-02-20搬到了杭州"


def test_a_private_turn_is_one_event_for_that_person_alone(memory: Memory) -> None:
    end(memory, **TURN, **PRIVATE, messages=[SAID])
    done(memory)
    found = event(memory, group=None)
    assert found.principals == ("u:1708",)
    assert [c.occasion.id for c in claims(memory, "events", group=None) if c.occasion] == ["req:1"]


def test_what_the_messages_say_is_the_users_word_and_anything_else_is_the_bots(memory: Memory) -> None:
    end(memory, "proven", **TURN, **GROUP, messages=[SAID])
    end(memory, "unproven", new_info="Null 喜欢爵士乐", **GROUP, messages=[{**SAID, "message_id": "m2"}])
    end(memory, "alone", new_info="Null 会弹吉他", **GROUP)
    done(memory)
    lines = {c.occasion.request_id: c for c in claims(memory, "profile") if c.occasion}
    assert {k: c.governance.evidence_level for k, c in lines.items()} == {
        "proven": EvidenceLevel.USER_CLAIM,
        "unproven": EvidenceLevel.AI_INFERENCE,
        "alone": EvidenceLevel.AI_INFERENCE,
    }
    assert [s.text_exact for s in lines["proven"].spans] == ["我昨天搬到了杭州。"]
    assert [s.text_exact for s in lines["alone"].spans] == ["Null 会弹吉他"]
    profile = memory.get_profile("user", "1708", "t", "1708", "g1").text
    marked = [line for line in profile.splitlines() if "机器人自己的话" in line]
    assert len(marked) == 2
    assert not any("杭州" in line for line in marked)


def test_what_a_bot_noted_does_not_expire_after_a_day(memory: Memory, clock: FixedClock) -> None:
    end(memory, **TURN, **GROUP)
    done(memory)
    clock.tick(days=400)
    assert event(memory).governance.ttl_policy == "bot_end"


# --- the gate loop


def test_a_rewrite_that_is_not_absolute_is_told_so_and_tried_again(tmp_path: Path, clock: FixedClock) -> None:
    bad = {**GOOD, "did_what": "小忆告诉他明天会下雨"}
    llm = ScriptedLLM(by_prompt={"historian.absolutise": [bad, GOOD]})
    with opened(tmp_path, clock, llm) as memory:
        end(memory, **TURN, **GROUP, messages=[SAID])
        done(memory)
        found = event(memory)
    assert (found.statement, found.provider) == (RAIN, "scripted")
    assert found.occasion is not None
    assert (found.occasion.is_absolute, found.occasion.rewrites) == (True, 1)
    told = llm.asked[-1][-1].text
    assert "relative pronoun" in told
    assert "他" in told


def test_after_two_retries_it_is_kept_marked_and_somebody_is_told(tmp_path: Path, clock: FixedClock) -> None:
    bad = {**GOOD, "canonical_text": "小忆刚才告诉 Null 杭州 2026-02-22 会下雨"}
    llm = ScriptedLLM(by_prompt={"historian.absolutise": [bad, bad, bad]})
    heard: list[Alert] = []
    with opened(tmp_path, clock, llm) as memory:
        memory.parts.alerts.on(heard.append)
        end(memory, **TURN, **GROUP, messages=[SAID])
        done(memory)
        found = event(memory)
    assert found.statement == bad["canonical_text"]
    assert found.occasion is not None
    assert (found.occasion.is_absolute, found.occasion.rewrites) == (False, 2)
    assert [(a.kind, a.facts["event_id"]) for a in heard] == [("not_absolute", "req:1")]


def test_how_often_it_is_tried_again_is_a_setting(tmp_path: Path, clock: FixedClock) -> None:
    bad = {**GOOD, "canonical_text": "小忆刚才告诉 Null 杭州 2026-02-22 会下雨"}
    llm = ScriptedLLM(by_prompt={"historian.absolutise": [bad]})
    never = replace(QUIET, cognitive=CognitiveConfig(historian=HistorianConfig(rewrite_max_retry=0)))
    with opened(tmp_path, clock, llm, never) as memory:
        end(memory, **TURN, **GROUP, messages=[SAID])
        done(memory)
        found = event(memory)
    assert found.occasion is not None
    assert not found.occasion.is_absolute


def test_a_rewrite_that_invents_something_is_not_kept(tmp_path: Path, clock: FixedClock) -> None:
    invented = {**GOOD, "new_info": "Null 2026-02-20 和女友 Amy 搬到了杭州"}
    llm = ScriptedLLM(by_prompt={"historian.absolutise": [invented] * 3})
    with opened(tmp_path, clock, llm) as memory:
        end(memory, **TURN, **GROUP, messages=[SAID])
        done(memory)
        found = claims(memory, "events") + claims(memory, "profile")
    assert not [c for c in found if "Amy" in c.statement]
    assert {c.provider for c in found} == {"rules"}, "the rules' own rewrite took its place"
    assert all(c.occasion and c.occasion.is_absolute for c in found)


def test_a_model_that_fails_leaves_the_job_to_be_tried_again(tmp_path: Path, clock: FixedClock) -> None:
    llm = ScriptedLLM(by_prompt={"historian.absolutise": [errors.ModelFailed("busy"), GOOD]})
    with opened(tmp_path, clock, llm) as memory:
        end(memory, **TURN, **GROUP, messages=[SAID])
        assert memory.run_jobs().failed == 1
        (job,) = memory.jobs()
        assert (job.status, job.attempts) == ("pending", 1)
        assert not claims(memory, "events")
        clock.tick(seconds=10)
        done(memory)
        found = event(memory)
    assert found.occasion is not None
    assert found.occasion.attempts == 1


def test_without_a_model_the_rules_do_it_and_say_so(tmp_path: Path, clock: FixedClock) -> None:
    with opened(tmp_path, clock, None) as memory:
        end(memory, **TURN, **GROUP, messages=[SAID])
        done(memory)
        assert event(memory).provider == "rules"


def test_quotes_and_code_are_not_touched(memory: Memory) -> None:
    end(memory, action_summary="解释了“我明天再来”和 `today = date.today()`", **GROUP)
    done(memory)
    assert "“我明天再来”和 `today = date.today()`" in event(memory).statement
    assert event(memory).occasion.is_absolute  # type: ignore[union-attr]


# --- profiles


def test_a_profile_is_markdown_with_front_matter(memory: Memory) -> None:
    end(memory, **TURN, **GROUP, messages=[SAID])
    done(memory)
    (path,) = Path(memory.parts.home).rglob("memories/profile/*/content.md")
    head, body = path.read_text(encoding="utf-8").removeprefix("---\n").split("---\n", 1)
    values = dict(line.split(": ", 1) for line in head.splitlines())
    assert values == {
        "entity_type": "user",
        "entity_id": '"1708"',
        "name": '"Null"',
        "tags": '["杭州"]',
        "updated_at": '"2026-02-21T14:30:00+08:00"',
        "source_event_id": '"req:1"',
    }
    assert body.startswith("# 用户侧写\n\n- Null 2026-02-20搬到了杭州")
    assert "> 我昨天搬到了杭州。" in body


def test_a_newer_line_on_the_same_topic_stands_in_for_the_older(memory: Memory, clock: FixedClock) -> None:
    end(memory, "old", new_info="Null 住在上海", **PRIVATE)
    end(memory, "new", new_info="Null 住在杭州", **PRIVATE, timestamp="2026-03-01T10:00:00+08:00")
    done(memory)
    assert [c.statement for c in claims(memory, "profile", None)] == ["Null 住在杭州"]
    (old,) = claims(memory, "profile", None, "superseded")
    assert (old.statement, old.state) == ("Null 住在上海", ClaimState.SUPERSEDED)
    assert len(claims(memory, "events", None)) == 2, "both happened"
    overview = memory.get_profile("user", "1708", "t", "1708").overview
    assert overview.index("住在杭州") < overview.index("曾经") < overview.index("住在上海")


def test_what_is_said_of_the_group_is_the_groups(memory: Memory) -> None:
    end(memory, new_info="本群每周五晚上开会", **GROUP)
    done(memory)
    (line,) = claims(memory, "profile")
    assert line.node_uri == "ctx://t/groups/g1/memories/profile/profile"
    assert "# 群聊侧写" in memory.get_profile("group", "g1", "t", "1708", "g1").text


def test_a_group_keeps_what_it_knows_of_its_members_to_itself(memory: Memory) -> None:
    end(memory, "a", new_info="Null 喜欢爵士乐", **GROUP)
    end(memory, "b", new_info="Null 害怕坐飞机", **{**GROUP, "group_id": "g2"})
    end(memory, "c", new_info="Null 在找新工作", **PRIVATE)
    done(memory)
    shown = {where: memory.get_profile("user", "1708", "t", "1708", where).body for where in ("g1", "g2", None)}
    for where, words in (("g1", "爵士乐"), ("g2", "坐飞机"), (None, "新工作")):
        assert [place for place, body in shown.items() if words in body] == [where]


def test_a_message_gives_at_most_one_new_info(memory: Memory) -> None:
    end(memory, "r", 1, new_info="Null 喜欢茶", **GROUP, message_ids=["m1"])
    end(memory, "r", 2, new_info="Null 喜欢咖啡", **GROUP, message_ids=["m1"])
    end(memory, "r", 3, new_info="Null 喜欢可可", **GROUP, message_ids=["m2"])
    done(memory)
    assert {c.statement for c in claims(memory, "profile")} == {"Null 喜欢茶", "Null 喜欢可可"}
    events = {c.occasion.event_id for c in claims(memory, "events") if c.occasion}
    assert events == {"r:1", "r:2", "r:3"}, "what is not filed is not lost"


def test_updates_of_one_profile_at_the_same_time_lose_nothing(tmp_path: Path, clock: FixedClock) -> None:
    """Two memories on one home, each with jobs of the same person under way."""

    async def work() -> list[str]:
        made = [
            AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET, clock=clock) for _ in range(2)
        ]
        for n in range(20):
            call = {"new_info": f"Null 收藏了第{n}号唱片", "timestamp": AT, **PRIVATE}
            await made[0].end("t", f"r{n}", 1, **call)
        jobs = [await memory.parts.queue.get(job.job_id) for memory in made[:1] for job in await memory.jobs()]
        # Side by side, as if the chat's own order were not kept.
        halves = zip(jobs[::2], jobs[1::2], strict=True)
        for one, other in halves:
            assert one is not None
            assert other is not None
            await asyncio.gather(made[0].parts.historian.digest(one), made[1].parts.historian.digest(other))
        found = (await made[0].get_profile("user", "1708", "t", "1708")).body
        for memory in made:
            await memory.close()
        return [line for line in found.splitlines() if line.startswith("- ")]

    assert len(asyncio.run(work())) == 20


# --- once and for all


def test_a_worker_that_dies_anywhere_leaves_a_job_the_next_one_finishes(tmp_path: Path, clock: FixedClock) -> None:
    """Every call to the archive fails once, at each place in turn; the outcome is always the same, and the model is
    never asked again for what it said once."""
    whole: dict[str, Any] | None = None
    broken = 0
    for step in range(100):
        llm = ScriptedLLM(by_prompt={"historian.absolutise": [GOOD, GOOD]})
        home = tmp_path / str(step)
        with opened(home, clock, llm) as memory:
            end(memory, **TURN, **GROUP, messages=[SAID])
            with _Failing(memory.parts.archive, step) as failing:
                memory.run_jobs()
            assert bool(memory.jobs()) == failing.failed
            clock.tick(seconds=10)
            done(memory)
            found = {
                c.claim_id: (c.statement, c.shelf) for c in [*claims(memory, "events"), *claims(memory, "profile")]
            }
            report = memory.verify()
            assert report.ok
            assert not report.notes
        whole = whole or found
        assert found == whole
        broken += failing.failed
        if not failing.failed:
            break
    assert broken > 10


class _Failing:
    """An archive whose n-th write fails."""

    _WRITES = ("append_turns", "write_session", "put_claims", "write_node", "read_session", "read_claims", "read_node")

    def __init__(self, archive: Any, step: int) -> None:
        self._archive, self._left, self.failed = archive, step, False

    def __enter__(self) -> _Failing:
        for name in self._WRITES:
            setattr(self._archive, name, self._wrapped(getattr(self._archive, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._WRITES:
            delattr(self._archive, name)

    def _wrapped(self, method: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self.failed = True
                raise errors.Unavailable("the disk is full")
            return await method(*args, **kwargs)

        return call


def test_an_edited_message_keeps_both_wordings(memory: Memory) -> None:
    end(memory, "a", action_summary="答了", **GROUP, messages=[SAID])
    end(memory, "b", action_summary="又答了", **GROUP, messages=[{**SAID, "text": "我昨天搬到了苏州。"}])
    done(memory)
    said = {m.content for m in memory.bind("t", "1708", group_id="g1").messages_list(role="user").items}
    assert said == {SAID["text"], "我昨天搬到了苏州。"}


def test_the_jobs_of_one_chat_are_done_in_their_order(memory: Memory) -> None:
    for n in range(12):
        at = f"2026-02-21T14:30:{n:02}+08:00"
        end(memory, f"r{n:02}", new_info=f"Null 住在第{n}大街", **PRIVATE, timestamp=at)
    done(memory)
    (now,) = claims(memory, "profile", None)
    assert now.statement == "Null 住在第11大街"


def test_index_and_graph_can_be_made_again_from_the_archive(memory: Memory) -> None:
    for n in range(3):
        end(memory, f"r{n}", new_info=f"Null 喜欢第{n}号咖啡", **GROUP, messages=[{**SAID, "message_id": f"m{n}"}])
    done(memory)

    def seen() -> Any:
        graph = memory.graph("t", "1708", group_id="g1").events(limit=100).items
        return (
            sorted(c.claim_id for c in [*claims(memory, "events"), *claims(memory, "profile")]),
            memory.search_profiles("咖啡", "t", "1708", "g1"),
            sorted(e.id for e in graph),
        )

    before = seen()
    memory.rebuild()
    assert seen() == before
    assert not memory.verify().notes


# --- forgetting


def test_a_forgotten_person_is_forgotten_in_groups_too(memory: Memory) -> None:
    other = {"message_id": "m9", "sender_id": "2002", "sender_name": "阿强", "text": "我周末去爬黄山"}
    end(memory, "a", **TURN, **GROUP, messages=[other, SAID])
    end(memory, "b", new_info="阿强养了一只柯基", **{**GROUP, "sender_id": "2002", "sender_name": "阿强"}, messages=[
        {**other, "message_id": "m10", "text": "我养了一只柯基"}])  # fmt: skip
    end(memory, "c", new_info="Null 在学法语", **PRIVATE)
    done(memory)
    end(memory, "d", new_info="Null 在学日语", **GROUP)
    receipt = memory.forget("t", "1708")
    assert receipt.complete, receipt.left
    assert not memory.jobs()
    home = Path(memory.parts.home)
    for words in ("搬到了杭州", "学法语", "学日语", "会下雨"):
        forms = (words.encode(), json.dumps(words)[1:-1].encode())
        assert not [p for p in home.rglob("*") if p.is_file() and any(f in p.read_bytes() for f in forms)], words
    said = {m.content for m in memory.bind("t", "2002", group_id="g1").messages_list(role="user").items}
    assert said == {"我周末去爬黄山", "我养了一只柯基"}, "what others said stays"
    assert "柯基" in memory.get_profile("user", "2002", "t", "2002", "g1").body
    assert memory.verify().ok
