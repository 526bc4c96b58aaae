"""How fast, and in how much memory, stage 1 reads a large export: `python benchmarks/normalise.py --mb 200`."""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mnemon.contracts.turns import InputFormat
from mnemon.logic.adapters import decoded, normalise
from mnemon.logic.denoise import OutputCheck, denoise

ENGLISH = ["We", "moved", "the", "review", "to", "Friday", "because", "Ann", "is", "travelling", "this", "week."]
CHINESE = ["我下周三要去上海出差", "请把会议改到周五下午", "记得我不吃香菜", "预算上限是五万元", "项目代号叫青鸟🐦"]
READ_BYTES = 1 << 16


def sentence(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return " ".join(rng.choices(ENGLISH, k=rng.randint(10, 80)))
    return "，".join(rng.choices(CHINESE, k=rng.randint(3, 25))) + "。\n"


def canonical(rng: random.Random, number: int) -> dict[str, object]:
    role = "user" if number % 2 == 0 else "assistant"
    return {
        "turn_id": f"m-{number:09d}",
        "role": role,
        "speaker": "Alice",
        "text": sentence(rng),
        "meta": {"n": number},
    }


def openai(rng: random.Random, number: int) -> dict[str, object]:
    kind = number % 10
    if kind == 7:
        arguments = json.dumps({"query": sentence(rng)}, ensure_ascii=False)
        function = {"name": "web_search", "arguments": arguments}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if kind == 8:
        long = "".join(sentence(rng) for _ in range(60 if number % 100 == 8 else 4))
        return {"role": "tool", "tool_call_id": f"call_{number - 1}", "content": long}
    if kind == 3:
        return {"role": "user", "content": [{"type": "text", "text": sentence(rng)}]}
    return {
        "role": "user" if kind % 2 == 0 else "assistant",
        "content": sentence(rng),
        "created_at": 1735689600 + number,
    }


def studio(rng: random.Random, number: int) -> dict[str, object]:
    if number % 2 == 0:
        return {"text": sentence(rng), "role": "user", "tokenCount": 40}
    parts = [{"text": sentence(rng)} for _ in range(4)]
    return {"role": "model", "parts": parts, "finishReason": "STOP", "tokenCount": 160}


def trace(rng: random.Random, number: int) -> dict[str, object]:
    kind = ("user_message", "assistant_message", "tool_call", "tool_result")[number % 4]
    step: dict[str, object] = {"step_id": f"s{number}", "type": kind, "timestamp": 1735689600 + number}
    if kind == "tool_call":
        step["tool"] = {"name": "search", "call_id": f"c{number}", "arguments": {"q": sentence(rng)}}
    elif kind == "tool_result":
        step["tool"] = {
            "name": "search",
            "call_id": f"c{number - 1}",
            "output": sentence(rng),
            "duration_ms": 12,
            "ok": True,
        }
    else:
        step["text"] = sentence(rng)
    return step


Element = Callable[[random.Random, int], dict[str, object]]
FORMS: dict[InputFormat, tuple[str, Element, str, str]] = {
    InputFormat.CANONICAL_TURNS: ('{"turns": [\n', canonical, ",\n", "\n]}\n"),
    InputFormat.OPENAI_MESSAGES: ('{"model": "m", "messages": [\n', openai, ",\n", '\n], "n": 1}\n'),
    InputFormat.AI_STUDIO_EXPORT: (
        '{"runSettings": {"topP": 0.9,}, // settings\n"chunkedPrompt": {"chunks": [\n',
        studio,
        ",\n",
        ",\n],},}\n",
    ),
    InputFormat.AGENT_TRACE: ('{"schema": "agent_trace_v1", "trace_id": "b", "steps": [\n', trace, ",\n", "\n]}\n"),
}


def generate(path: Path, form: InputFormat, megabytes: int) -> None:
    head, element, between, tail = FORMS[form]
    rng = random.Random(7)
    size, number = 0, 0
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(head)
        while size < megabytes * 1_000_000:
            text = ("" if number == 0 else between) + json.dumps(element(rng, number), ensure_ascii=False)
            file.write(text)
            size += len(text.encode())
            number += 1
        file.write(tail)


def blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            yield block


def child(path: Path, form: str) -> None:
    """Everything stage 1 does, in a process of its own, so that the peak is stage 1's alone."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    check, turns, kept, blob_bytes = OutputCheck(), 0, 0, 0
    for result in denoise(normalise(decoded(blocks(path)), form)):
        turns += 1
        blob_bytes += sum(map(len, result.blobs))
        if result.turn is not None:
            kept += 1
            check.add(result.turn)
    check.finish()
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {"seconds": seconds, "peak": peak, "before": before, "turns": turns, "kept": kept, "blobs": blob_bytes}
    sys.stdout.write(json.dumps(report) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=20, help="size of each export in megabytes (default 20)")
    parser.add_argument("--format", choices=[form.value for form in FORMS], help="only this format")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--child", nargs=2, metavar=("PATH", "FORMAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), options.child[1])
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            if options.format in (None, form.value):
                path = Path(folder) / f"{form.value}.json"
                generate(path, form, options.mb)
                command = [sys.executable, __file__, "--child", str(path), form.value]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                rows.append({"format": form.value, "megabytes": path.stat().st_size / 1e6, **json.loads(answer)})
                path.unlink()
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    sys.stdout.write(f"{'format':26}{'MB':>7}{'MB/s':>8}{'s':>8}{'peak MiB':>10}{'of it base':>12}{'turns':>10}\n")
    for row in rows:
        speed = row["megabytes"] / row["seconds"]
        sys.stdout.write(
            f"{row['format']:26}{row['megabytes']:7.0f}{speed:8.1f}{row['seconds']:8.1f}"
            f"{row['peak'] / 1024:10.0f}{row['before'] / 1024:12.0f}{row['turns']:10}\n"
        )


if __name__ == "__main__":
    main()
