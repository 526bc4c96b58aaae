"""Answers judged: right, wrong, adversarial, a judge that talks nonsense, and runs that are cut off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon.contracts.errors import Conflict, InvalidArgument, ModelNotConfigured
from mnemon.surfaces.bench.confidence import bootstrap, wilson
from mnemon.surfaces.bench.measures import token_f1
from mnemon.surfaces.cli import cli
from mnemon.testing.llm_server import TOKENS, LLMServer, llm_server

BICYCLE, CAT, SISTER, BLUE = "a red bicycle", "Momo", "她的妹妹在杭州", "the blue one, says the key"
DATE = "1:56 pm on 8 May, 2023"
DOCS = [
    {"group": "one", "doc_id": "D1:1", "session": 1, "speaker": "Ann", "date": DATE, "text": "I bought a red bicycle."},
    {"group": "one", "doc_id": "D1:2", "session": 1, "speaker": "Bob", "date": DATE, "text": "My cat is called Momo."},
    {"group": "two", "doc_id": "D1:1", "session": 1, "speaker": "小林", "date": DATE, "text": "我的妹妹住在杭州。"},
]
QUERIES = [
    {"query_id": "q1", "group": "one", "question": "What did Ann buy?", "category": 4, "answer": BICYCLE},
    {"query_id": "q2", "group": "one", "question": "What is Bob's cat called?", "category": 1, "answer": CAT},
    {"query_id": "q3", "group": "one", "question": "What is Ann's cat called?", "category": 5, "answer": BLUE},
    {"query_id": "q4", "group": "two", "question": "小林的妹妹住在哪里？", "category": 4, "answer": SISTER},
    {"query_id": "q5", "group": "two", "question": "Nobody wrote down what is right here", "category": 4},
]
ANSWERS = {"Ann buy": "A red bicycle", "Bob's cat": "Felix", "Ann's cat": "insufficient information", "妹妹": "杭州"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, rows in (("docs", DOCS), ("queries", [{"evidence": ["D1:1"], **row} for row in QUERIES])):
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def is_judge(said: str) -> bool:
    return "# bench.judge@1" in said


def asked_about(said: str) -> str:
    return said.split("<question>\n")[1].split("\n</question>")[0]


def model(said: str) -> dict[str, Any]:
    """Answers as it is told above; as a judge it is strict about cats and lenient about everything else."""
    question = asked_about(said)
    if not is_judge(said):
        return {"answer": next(answer for part, answer in ANSWERS.items() if part in question)}
    return {"reason": "because", "verdict": "wrong" if "Felix" in said else "right"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    with llm_server(model) as running:
        monkeypatch.setenv("MNEMON_LLM_PROVIDER", "openai")
        monkeypatch.setenv("MNEMON_LLM_MODEL", "answerer-1")
        monkeypatch.setenv("MNEMON_LLM_API_KEY", "sk-for-the-tests")
        monkeypatch.setenv("MNEMON_LLM_BASE_URL", f"{running.url}/v1")
        yield running


Run = Callable[..., dict[str, Any]]


def invoke(data: Path, *options: str) -> Result:
    command = ["bench", "qa", "--dataset", "locomo", "--data", str(data), "--home", str(data / "home")]
    return CliRunner().invoke(cli, [*command, "--embedder", "hash", "--concurrency", "1", *options])


@pytest.fixture
def run(data: Path) -> Run:
    def call(*options: str) -> dict[str, Any]:
        done = invoke(data, "--json", *options)
        if done.exception:
            raise done.exception
        return dict(json.loads(done.stdout))

    return call


def judged(server: LLMServer) -> list[str]:
    return [asked_about(asked.text) for asked in server.asked if is_judge(asked.text)]


def answered(server: LLMServer) -> list[str]:
    return [asked_about(asked.text) for asked in server.asked if not is_judge(asked.text)]


def test_every_question_with_a_gold_answer_is_asked_and_judged(run: Run, server: LLMServer) -> None:
    told = run()
    standings = {name: (f["n"], f["right"], f["wrong"]) for name, f in told["figures"].items()}
    assert standings == {"all": (4, 3, 1), "answerable": (3, 2, 1), "1": (1, 0, 1), "4": (2, 2, 0), "5": (1, 1, 0)}
    assert list(told["figures"]) == ["all", "answerable", "1", "4", "5"]
    assert told["figures"]["all"]["accuracy"] == 0.75
    assert told["figures"]["all"]["wilson"] == pytest.approx(wilson(3, 4))
    assert told["figures"]["all"]["bootstrap"] == pytest.approx([2 / 3, 1.0])
    assert told["figures"]["1"]["bootstrap"] is None
    assert told["figures"]["5"]["f1"] is None
    assert told["figures"]["1"]["f1"] == 0
    assert told["without_gold"] == 1
    tokens = 8 * sum(TOKENS.values())
    assert told["calls"] == {"answer_calls": 4, "judge_calls": 4, "tokens": tokens}
    assert told["latency_ms"]["answer_ms"]["p50"] > 0
    settings = told["settings"]
    assert settings["models"] == {"answer": "openai:answerer-1", "judge": "openai:answerer-1"}
    assert settings["prompts"] == {"answer": "retrieval.qa_general@1", "judge": "bench.judge@1"}
    assert (settings["strategy"], settings["seed"]) == ("dialog_v2", 7)


def test_no_gold_answer_reaches_the_model_that_answers(run: Run, server: LLMServer) -> None:
    run()
    seen = "\n".join(asked.text for asked in server.asked if not is_judge(asked.text))
    assert SISTER not in seen
    assert BLUE not in seen
    assert "NOT IN THE CONVERSATION" not in seen
    assert len(answered(server)) == 4


def test_an_adversarial_question_is_right_when_nothing_is_claimed(run: Run, server: LLMServer) -> None:
    run()
    (case,) = [asked.text for asked in server.asked if is_judge(asked.text) and "Ann's cat" in asked.text]
    assert "<gold>\nNOT IN THE CONVERSATION\n</gold>" in case
    assert "<answer>\ninsufficient information\n</answer>" in case
    assert BLUE not in case


def test_a_chinese_question_is_judged_in_chinese(run: Run, server: LLMServer) -> None:
    run()
    (case,) = [asked.text for asked in server.asked if is_judge(asked.text) and "妹妹" in asked.text]
    assert "判断对问题的回答是否与标准答案一致" in case
    assert f"<gold>\n{SISTER}\n</gold>" in case


def test_another_model_can_judge(run: Run, server: LLMServer) -> None:
    told = run("--judge", "openai:judge-2")
    assert told["settings"]["models"] == {"answer": "openai:answerer-1", "judge": "openai:judge-2"}
    assert {a.body["model"] for a in server.asked if is_judge(a.text)} == {"judge-2"}
    assert {a.body["model"] for a in server.asked if not is_judge(a.text)} == {"answerer-1"}


@pytest.mark.parametrize("nonsense", ["bad_json", "wrong_schema", "refusal", "empty"])
def test_a_judge_that_talks_nonsense_is_asked_again(run: Run, server: LLMServer, nonsense: str) -> None:
    server.script = ["ok", nonsense]
    told = run("--limit", "1")
    assert told["figures"]["all"]["right"] == 1
    assert told["calls"]["judge_calls"] == 2


@pytest.mark.parametrize("nonsense", ["bad_json", "wrong_schema", "refusal"])
def test_a_judge_without_a_verdict_leaves_the_answer_unjudged_and_never_right(
    run: Run, server: LLMServer, nonsense: str
) -> None:
    server.script = ["ok", nonsense, nonsense, nonsense]
    figures = run("--limit", "1")["figures"]["all"]
    assert (figures["n"], figures["right"], figures["wrong"], figures["unjudged"]) == (1, 0, 0, 1)
    assert figures["accuracy"] == 0


def test_a_verdict_that_is_neither_right_nor_wrong_is_no_verdict(run: Run, server: LLMServer) -> None:
    server.answer = lambda said: {"reason": "", "verdict": "mostly right"} if is_judge(said) else model(said)
    figures = run("--limit", "1")["figures"]["all"]
    assert (figures["right"], figures["unjudged"]) == (0, 1)


def test_a_judge_that_is_out_of_order_leaves_the_answer_unjudged(run: Run, server: LLMServer) -> None:
    server.script = ["ok", "401"]
    assert run("--limit", "1")["figures"]["all"]["unjudged"] == 1


def test_a_question_nobody_answered_is_a_failure_and_not_a_wise_silence(run: Run, server: LLMServer) -> None:
    """Also of the adversarial category, where the sentence that stands in for an answer would be right."""
    server.answer = lambda said: {"forty": 2} if not is_judge(said) else model(said)
    figures = run()["figures"]
    assert (figures["all"]["failed"], figures["5"]["right"], figures["all"]["degraded"]) == (4, 0, 4)
    assert judged(server) == []


def test_a_model_that_is_out_of_order_fails_its_question_and_the_run_goes_on(run: Run, server: LLMServer) -> None:
    server.script = ["401"]
    figures = run()["figures"]["all"]
    assert (figures["n"], figures["failed"], figures["right"]) == (4, 1, 2)


def test_an_interrupted_run_goes_on_where_it_stopped(run: Run, server: LLMServer, tmp_path: Path) -> None:
    file = tmp_path / "runs" / "first.jsonl"
    assert run("--limit", "2", "--run", str(file))["figures"]["all"]["n"] == 2
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    server.asked.clear()
    told = run("--run", str(file))
    assert told["resumed"] == 1
    assert [q for q in answered(server) if "Ann buy" in q] == []
    assert len(answered(server)) == 3
    assert {name: f["right"] for name, f in told["figures"].items()}["all"] == 3
    assert told["calls"]["answer_calls"] == 4
    server.asked.clear()
    assert run("--run", str(file)) == told | {"resumed": 4}
    assert server.asked == []


def test_what_failed_or_was_not_judged_is_asked_again(run: Run, server: LLMServer, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    server.script = ["401", "ok", "refusal", "refusal", "refusal"]
    first = run("--run", str(file))["figures"]["all"]
    assert (first["failed"], first["unjudged"]) == (1, 1)
    told = run("--run", str(file))
    assert (told["resumed"], told["figures"]["all"]["right"]) == (2, 3)


def test_a_run_is_not_gone_on_with_under_other_settings(run: Run, server: LLMServer, data: Path) -> None:
    file = data / "run.jsonl"
    run("--limit", "1", "--run", str(file))
    with pytest.raises(Conflict, match=r"another strategy.*name another file"):
        run("--run", str(file), "--strategy", "dialog_v1")
    with pytest.raises(Conflict, match="another models"):
        run("--run", str(file), "--judge", "openai:judge-2")
    (data / "queries.jsonl").write_text(json.dumps({"evidence": [], **QUERIES[0], "answer": "a tandem"}))
    with pytest.raises(Conflict, match="another data"):
        run("--run", str(file))


def test_without_a_model_nothing_is_written(run: Run, data: Path) -> None:
    with pytest.raises(ModelNotConfigured, match="no language model to answer"):
        run()
    with pytest.raises(ModelNotConfigured, match="rules can neither answer nor judge"):
        run("--llm", "rules")
    assert not list((data / "home").rglob("*.jsonl"))


def test_a_dataset_without_gold_answers_cannot_be_judged(run: Run, server: LLMServer, data: Path) -> None:
    (data / "queries.jsonl").write_text(json.dumps({"evidence": [], **QUERIES[4]}))
    with pytest.raises(InvalidArgument, match="no question of this dataset has an `answer`"):
        run()


def test_a_person_sees_a_table_and_what_it_cost(data: Path, server: LLMServer) -> None:
    shown = invoke(data).stdout
    assert "75.0" in shown
    assert "4 answer calls, 4 judge calls" in shown
    assert "1 questions have no answer to compare with" in shown


def test_several_questions_at_a_time_give_the_same(run: Run, server: LLMServer) -> None:
    one, many = run(), run("--concurrency", "3")
    assert one["figures"] == many["figures"]


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("a red bicycle", "The red bicycle!", 1.0),
        ("her sisters", "sister", 2 / 3),
        ("住在杭州", "杭州", 2 / 3),
        ("7 May", "nothing", 0.0),
        ("", "", 0.0),
    ],
)
def test_shared_words_and_characters_are_counted(gold: str, answer: str, expected: float) -> None:
    assert token_f1(gold, answer) == pytest.approx(expected)


def test_intervals_hold_what_they_should() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(5, 5)[1] == 1.0
    assert bootstrap([(3, 4)], 7) is None
    low, high = bootstrap([(9, 10), (5, 10), (1, 10)], 7) or (1.0, 0.0)
    assert 0.1 <= low < 0.5 < high <= 0.9
    assert bootstrap([(9, 10), (5, 10)], 7) == bootstrap([(9, 10), (5, 10)], 7)
