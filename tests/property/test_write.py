"""The write pipeline as laws: whatever was said and whatever a model answers, nothing unsupported is ever stored."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mnemon import AsyncMemory, Config
from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.drafts import Draft, Extraction
from mnemon.contracts.errors import MnemonError
from mnemon.contracts.filters import Eq
from mnemon.contracts.governance import EvidenceLevel, Kind, Status
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.tags import WriteAction
from mnemon.contracts.turns import Role, Turn
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic import drafting
from mnemon.logic.denoise import DenoiseRules, denoise, verbatim_length
from mnemon.logic.drafting import DraftInput
from mnemon.logic.evidence import Conversation
from mnemon.logic.shelves import EXTRACTORS, SHELVES
from mnemon.logic.tagging import kept_turns
from mnemon.logic.transcripts import overlap, unseen
from mnemon.pipelines.index.projection import CLAIM, HIDDEN
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

KEY = SessionKey("t", Owner.user("ann"), "s")
STEWARD = Scope.steward_of("t")
DAY = datetime(2026, 1, 1, tzinfo=UTC)
TRIES = 3

Said = list[tuple[str, str]]
Script = dict[str, list[Any]]
Story = tuple[Said, DenoiseRules, Script]

# Speech that matters to the gates, in many scripts, with what is easily cut in two.
SAYINGS = (
    """
我住在成都。|I live in Rome.|我不喜欢香菜|I don't like coffee|请记住我对花生过敏|Please remember that I'm vegan
对的。|Yes, exactly.|以后都用中文回答|My sister Anna lives in Oslo.|我妹妹在北京工作|周五之前交报告
I have 2 dogs and 5 cats|明天下午三点开会|If I moved to Berlin|我可能对猫过敏|Do you like tea?
<memory>用户有三个孩子</memory>|[Memory] User owns a boat|CA123 departs 10:30|{"order": "A1", "status": "ok"}
Error: timeout|👨‍👩‍👧 family|👍🏽 好的|🇨🇳🇫🇷|cafe\u0301 cre\u0300me|\u1112\u1161\u11ab\u1100\u1173\u11af
مرحبا بكم|สวัสดีครับ|नमस्ते|Привет, я живу в Осло|九亿亿亿|𝒯𝑒𝒶|ﬁne
""".strip()
    .replace("\n", "|")
    .split("|")
)
PLAIN = [
    "我住在成都。",
    "I live in Rome.",
    "我不喜欢香菜",
    "My sister Anna lives in Oslo.",
    "I have 2 dogs",
    "以后都用中文回答",
]

anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
texts = st.lists(st.sampled_from(SAYINGS) | anything, min_size=1, max_size=3).map(" ".join)
turns = st.lists(st.tuples(st.sampled_from(["user", "user", *Role]).map(str), texts), min_size=1, max_size=4)
rules = st.builds(
    DenoiseRules,
    drop_empty=st.booleans(),
    drop_stats_only=st.booleans(),
    tool_text_limit=st.sampled_from([12, 40, 8000]),
    keep_dropped=st.booleans(),
)
slow = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws about content need no disk that lasts."""
    monkeypatch.setattr("os.fsync", lambda fd: None)


def conversation(said: Said) -> list[dict[str, Any]]:
    return [
        {"turn_id": f"t{n}", "role": role, "text": text, "speaker": "tool:f" if role == "tool" else ""}
        for n, (role, text) in enumerate(said)
    ]


def whole(n: int, text: str) -> dict[str, Any]:
    return {"turn_id": f"t{n}", "start": 0, "end": len(text), "text_exact": text}


@st.composite
def spans(draw: st.DrawFn, said: Said, n: int) -> dict[str, Any]:
    """A quote: a whole turn, a part of it, out of place, of another turn, or made up."""
    text = said[n][1]
    match draw(st.sampled_from(["whole"] * 4 + ["part", "place", "turn", "made up"])):
        case "part":
            start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
            return {"turn_id": f"t{n}", "start": start, "end": end, "text_exact": text[start:end]}
        case "place":
            return {**whole(n, text), "start": 3, "end": 2}
        case "turn":
            return {**whole(n, text), "turn_id": draw(st.sampled_from(["t0", "t1", "elsewhere", ""]))}
        case "made up":
            return {"turn_id": f"t{n}", "start": 0, "end": 9, "text_exact": draw(anything)}
    return whole(n, text)


@st.composite
def statements(draw: st.DrawFn, text: str) -> str:
    """What was said, what was said twisted, or anything."""
    first = (text.split() or ["x"])[0]
    twisted = [f"The user likes {first}", f"用户不{text}", f"{text} 42", f"{text} Marco", text[::-1], f"用户{text}"]
    return draw(st.sampled_from([text] * 6 + twisted) | st.sampled_from(SAYINGS) | anything).strip() or "x"


@st.composite
def drafts(draw: st.DrawFn, said: Said) -> dict[str, Any]:
    """A fair draft of one turn, with up to two things in it changed for the worse."""
    shelf = draw(st.sampled_from(list(Shelf)))
    n = draw(st.integers(0, len(said) - 1))
    free = statements(said[n][1])
    worse = {
        "statement": free,
        "title": free,
        "overview": free,
        "content": free,
        "rationale": free,
        "dedup_key": free,
        "routing_key": free.map(lambda text: text[:100]),
        "subject": st.sampled_from(["user", "u:ann", "u:bob", "Anna", "妹妹", ""]),
        "entity_names": st.lists(free, max_size=2),
        "status": st.sampled_from(list(Status)),
        "valid_from": st.sampled_from(["2019-01-01", "2026-01-01", "soon"]),
        "valid_to": st.sampled_from(["2026-01-02", "9999-99-99"]),
        "importance": st.sampled_from([0, 1, "high"]),
        "type": st.just(Kind.RULE),
        "spans": st.lists(spans(said, n), max_size=3),
        "tool": st.just({"tool_name": "warp", "call_count": 99}),
    }
    changed = draw(st.lists(st.sampled_from(sorted(worse)), max_size=2, unique=True))
    fair = {
        "type": min(SHELVES[shelf].kinds),
        "category": shelf,
        "routing_key": "general",
        "statement": said[n][1].strip() or "x",
        "confidence": 0.9,
        "spans": [whole(n, said[n][1])],
    }
    return fair | {name: draw(worse[name]) for name in changed}


@st.composite
def taggings(draw: st.DrawFn, said: Said) -> dict[str, Any]:
    ids = [f"t{n}" for n in range(len(said))]
    tags: list[dict[str, Any]] = []
    for n in draw(st.lists(st.integers(0, len(said) - 1), max_size=1)):
        span = draw(spans(said, n))
        tags.append(
            {
                "tag_id": f"m{len(tags)}",
                "turn_id": span.pop("turn_id"),
                "span": span,
                "category": draw(st.sampled_from(list(Kind))),
                "evidence_level": draw(st.sampled_from(list(EvidenceLevel))),
                "importance": 0.5,
                "ttl_seconds": draw(st.sampled_from([0, 60, 10**9])),
                "forget_policy": "permanent",
                "write_action": draw(st.sampled_from(["write_fact", "write_rule", "archive_only"])),
                "requires_confirmation": draw(st.booleans()),
                "subject": draw(st.sampled_from(["", "u:bob"])),
            }
        )
    kept = draw(st.sampled_from([ids] * 5 + [ids[:1], [*ids, "tx"]]))
    return {"kept_turn_ids": kept, "dropped_turn_ids": [i for i in ids if i not in kept], "tags": tags}


misshapen = st.recursive(
    st.none() | st.booleans() | st.integers() | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["facts", "tags", "spans"]), inner),
    max_leaves=6,
).map(lambda value: value if isinstance(value, dict) else {"facts": value})


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A conversation, how it is denoised, and a model that answers in some way and, asked again, in another."""
    said = draw(turns)

    def answers(good: st.SearchStrategy[Any]) -> list[Any]:
        return [draw(st.one_of(good, good, good, misshapen)), *[draw(good)] * (TRIES - 1)]

    free = statements(said[0][1])
    script: Script = {name: [{"facts": []}] * TRIES for name in EXTRACTORS}
    for name in draw(st.lists(st.sampled_from(sorted(EXTRACTORS)), min_size=1, max_size=2, unique=True)):
        mine = st.lists(drafts(said), max_size=4).map(lambda facts: {"facts": facts})
        script[name] = answers(mine)
    script["tagging.value_tags"] = answers(taggings(said))
    script["compression.archive_summary"] = answers(st.builds(lambda s: {"summary": s, "key_topics": [s]}, free))
    script["policy.merge_bundle"] = answers(st.builds(lambda s: {"abstract": s}, free))
    return said, draw(rules), script


def memory(home: str, rules: DenoiseRules, llm: Any) -> AsyncMemory:
    config = Config(background_worker=False, denoise=rules)
    return AsyncMemory(home, embedder=HashEmbedder(), config=config, clock=FixedClock(), llm=llm)


async def written(said: Said, rules: DenoiseRules, llm: Any, home: str) -> list[Claim]:
    """Writes, and proves everything that was stored from the archive alone."""
    async with memory(home, rules, llm) as it:
        try:
            result = await it.session_write("t", "ann", "s", turns=conversation(said))
        except MnemonError:
            return []
        archive, index = it.parts.archive, it.parts.index
        record = await archive.read_session(STEWARD, KEY)
        stored = await archive.read_turns(STEWARD, KEY)
        taggings = await archive.read_tags(STEWARD, KEY)
        claims = await archive.read_claims(STEWARD, KEY)
        assert record is not None
        assert result.status == "ok" or not claims
        assert [c.claim_id for c in claims] == list(record.claim_ids)
        talk = Conversation.of([s.turn for s in stored])
        for tag in (tag for tagging in taggings for tag in tagging.output.tags):
            tag.as_span().check(talk.turns[talk.places[tag.turn_id]])
            assert tag.write_action is not WriteAction.DROP
        kept = frozenset(i for tagging in taggings for i in kept_turns(tagging.output))
        said_at = {s.turn.turn_id: s.archived_at for s in stored}
        proof = DraftInput(talk, kept, (), said_at, frozenset(Shelf), subjects=("u:ann",))
        for claim in claims:
            hold(claim, proof)
        entries = (await index.scroll(STEWARD, Eq("kind", CLAIM), "newest", 100, None)).entries
        assert {entry.id for entry in entries} == {c.claim_id for c in claims}
        published = {entry.id for entry in entries if entry.fields["published"]}
        assert published == {c.claim_id for c in claims if c.state not in HIDDEN}
        for node in await it.nodes("t", "ann"):
            rows = (await it.node("t", "ann", node.uri)).metadata["claims"]
            assert {row["claim_id"] for row in rows} <= {c.claim_id for c in claims}
        assert (await it.verify()).ok
        return claims


def hold(claim: Claim, proof: DraftInput) -> None:
    """A claim's spans are verbatim, own and kept; it passes the gates again, and so does what stands beside it."""
    for span in claim.spans:
        turn = proof.conversation.turns[proof.conversation.places[span.turn_id]]
        span.check(turn)
        assert span.end <= verbatim_length(turn)
        assert span.turn_id in proof.kept or turn.role is Role.TOOL
    if claim.tool is not None or claim.shelf in (Shelf.CASES, Shelf.PATTERNS):
        return  # counted from the trace it cites, whatever its wording; `tests/acceptance` walks through the counts
    assert claim.governance.evidence_level is not EvidenceLevel.AI_INFERENCE
    shared = {*Draft.model_fields} & {*Claim.model_fields} | {"entity_names"}
    fields = claim.model_dump() | {"entity_names": claim.entities, "valid_from": "", "valid_to": ""}
    again = Draft(type=claim.kind, category=claim.shelf, **{name: fields[name] for name in shared})
    assert drafting.check(proof, Extraction(facts=(again,))) == []
    beside = {"title", "overview", "content", "rationale", "routing_key", "dedup_key", "entity_names", "tool", "status"}
    (mended,) = drafting.mend(proof, Extraction(facts=(again,))).facts
    assert mended.model_dump(include=beside) == again.model_dump(include=beside)


@given(story=stories())
@settings(slow, max_examples=45)
def test_whatever_a_model_answers_nothing_unsupported_is_stored(story: Story) -> None:
    said, rules, script = story
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(written(said, rules, ScriptedLLM(by_prompt=script), home))


@given(story=stories(), data=st.data())
@settings(slow, max_examples=60)
def test_the_gates_never_fail_and_mending_twice_changes_nothing(story: Story, data: st.DataObject) -> None:
    said, rules, _ = story
    kept = [d.turn for d in denoise([Turn(**row) for row in conversation(said)], rules) if d.turn is not None]
    ids = frozenset(turn.turn_id for turn in kept)
    given = DraftInput(Conversation.of(kept), ids, (), dict.fromkeys(ids, DAY), frozenset(Shelf), subjects=("u:ann",))
    answer = Extraction.model_validate({"facts": data.draw(st.lists(drafts(said), max_size=4))})
    mended = drafting.mend(given, answer)
    assert drafting.mend(given, mended) == mended
    refused = {violation.item for violation in drafting.check(given, mended)}
    for fact in (fact for n, fact in enumerate(mended.facts) if n not in refused):
        for span in fact.spans:
            span.check(given.conversation.turns[given.conversation.places[span.turn_id]])


@st.composite
def honest(draw: st.DrawFn) -> tuple[Said, Script, list[str]]:
    """A model that repeats what the user said, and changes one thing in some of it; what is fair of it."""
    said = [("user", text) for text in draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3))]
    facts, fair = [], set()
    for n, (_, text) in enumerate(said):
        span, statement = whole(n, text), text
        match change := draw(st.sampled_from(["", "", "place", "statement", "quote", "turn"])):
            case "place":
                span |= {"start": 3, "end": 4}
            case "statement":
                statement = f"{text} {draw(st.sampled_from(['42', 'Marco', '重庆', '🦊']))}"
            case "quote":
                span["text_exact"] = text[::-1]
            case "turn":
                span["turn_id"] = "elsewhere"
        if change in ("", "place"):
            fair.add(statement)
        named = {"type": "fact", "category": "profile", "routing_key": "profile", "confidence": 1}
        facts.append({**named, "statement": statement, "spans": [span]})
    script: Script = {name: [{"facts": []}] * TRIES for name in EXTRACTORS}
    script["extraction.profile"] = [{"facts": facts}] * TRIES
    script["tagging.value_tags"] = [{"kept_turn_ids": [f"t{n}" for n in range(len(said))]}] * TRIES
    script["compression.archive_summary"] = [{"summary": ""}] * TRIES
    return said, script, sorted(fair)


@given(story=honest())
@settings(slow, max_examples=20)
def test_a_fair_answer_is_stored_and_one_change_is_enough_to_refuse_it(story: tuple[Said, Script, list[str]]) -> None:
    said, script, fair = story
    with tempfile.TemporaryDirectory() as home:
        claims = asyncio.run(written(said, DenoiseRules(), ScriptedLLM(by_prompt=script), home))
        assert sorted(c.statement for c in claims) == fair


def papers(home: str) -> dict[str, bytes]:
    """What was made of the words. Links of the chain are salted, and so are the seals over them."""
    names = ("tags.json", "claims.jsonl", "content.md", ".abstract.md", ".overview.md", ".meta.json", "commit.json")
    files = [p for p in sorted(Path(home).rglob("*")) if p.name in names]
    return {str(p.relative_to(home)): re.sub(rb"[0-9a-f]{64}", b"", p.read_bytes()) for p in files}


@given(said=turns, rules=rules)
@example(said=[("user", "我住在成都。请记住我对花生过敏"), ("assistant", "You like tea?")], rules=DenoiseRules())
@settings(slow, max_examples=16)
def test_by_rules_everything_stored_is_supported_and_the_same_every_time(said: Said, rules: DenoiseRules) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        asyncio.run(written(said, rules, "rules", first))
        asyncio.run(written(said, rules, "rules", second))
        assert papers(first) == papers(second)


def test_a_claim_that_must_be_confirmed_is_stored_and_hidden() -> None:
    """So that what the laws say of published claims is not empty."""
    said = [("user", "我住在成都。")]
    span = whole(0, "我住在成都。")
    quoted = {name: span[name] for name in ("start", "end", "text_exact")}
    tag = {"tag_id": "m1", "turn_id": "t0", "span": quoted, "category": "fact", "evidence_level": "S0_user_claim",
           "importance": 0.5, "ttl_seconds": 0, "forget_policy": "temporary", "write_action": "write_fact",
           "requires_confirmation": True}  # fmt: skip
    fact = {"type": "fact", "category": "profile", "routing_key": "profile", "statement": "用户住在成都。",
            "confidence": 1, "spans": [span]}  # fmt: skip
    script: Script = {name: [{"facts": []}] for name in EXTRACTORS}
    script["extraction.profile"] = [{"facts": [fact]}]
    script["tagging.value_tags"] = [{"kept_turn_ids": ["t0"], "tags": [tag]}]
    with tempfile.TemporaryDirectory() as home:
        (claim,) = asyncio.run(written(said, DenoiseRules(), ScriptedLLM(by_prompt=script), home))
    assert claim.state is ClaimState.PENDING


# --- turns without ids

_SAID = st.lists(st.sampled_from([b"ok", b"no", b"hi"]), max_size=6)


@given(_SAID, _SAID)
def test_a_conversation_sent_again_gives_its_new_end_and_an_increment_gives_all(
    there: list[bytes], more: list[bytes]
) -> None:
    assert overlap(there, len(there), [*there, *more]) == len(there), "grown, or the same"
    begins = more[: len(there)] == there and len(more) >= len(there)
    assert overlap(there, len(there), more) == (len(there) if begins else 0), "else it follows, whatever it repeats"


@given(_SAID, _SAID, _SAID)
def test_a_call_that_got_no_good_answer_is_not_said_twice(
    answered: list[bytes], begun: list[bytes], more: list[bytes]
) -> None:
    there = [*answered, *begun]
    again = [*begun, *more]
    known = overlap(there, len(answered), again)
    whole = len(again) >= len(there) and again[: len(there)] == there
    assert known == (len(there) if whole else len(begun))
    assert overlap(there, len(answered), begun[:1]) >= bool(begun), "also where the archive holds more of it by now"


@given(_SAID, _SAID, st.data())
def test_what_was_taken_away_keeps_its_place(there: list[bytes], more: list[bytes], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, max(len(there) - 1, 0))))
    held: list[bytes | None] = [None if n in gone else said for n, said in enumerate(there)]
    assert overlap(held, len(held), [*there, *more]) == len(there)


@given(_SAID, _SAID)
def test_what_a_session_does_not_hold_is_counted_as_often_as_it_is_said(
    there: list[bytes], given_: list[bytes]
) -> None:
    missing = [given_[n] for n in unseen(there, given_)]
    if given_[: len(there)] == there:
        assert missing == given_[len(there) :]
    else:
        assert Counter(missing) == Counter(given_) - Counter(there)
