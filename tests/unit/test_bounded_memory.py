"""A large export is read, spooled and archived in memory that does not grow with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_CHILD = """
import json, sys
from pathlib import Path
from mnemon.pipelines.write.intake import take_in
from mnemon.logic.denoise import DenoiseRules

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("VmHWM")) / 1024

before = peak()
intake = take_in(Path(sys.argv[1]), sys.argv[2], DenoiseRules(), None)
count = sum(1 for _ in intake.spool.turns())
print(json.dumps({"turns": count, "grown_mb": peak() - before}))
"""
_LINE = (
    "我今天和同事讨论了预算，下周五之前要把合同发给客户。 The review moves to Thursday afternoon, please remind me. "
)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the peak of memory")
@pytest.mark.parametrize("input_format", ["openai_messages_v1", "canonical_turns_v1", "ai_studio_export_text_v1"])
def test_memory_does_not_grow_with_the_export(tmp_path: Path, input_format: str) -> None:
    count, text = 22_000, _LINE * 14  # about 40 MB
    item = {
        "openai_messages_v1": {"role": "user", "content": text},
        "canonical_turns_v1": {"role": "user", "text": text},
        "ai_studio_export_text_v1": {"role": "user", "text": text},
    }[input_format]
    head, tail = ('{"chunkedPrompt": {"chunks": [', "]}}") if "studio" in input_format else ("[", "]")
    row = json.dumps(item, ensure_ascii=False)
    file = tmp_path / "export.json"
    with file.open("w", encoding="utf-8") as out:
        out.write(head)
        for number in range(count):
            out.write(("," if number else "") + row)
        out.write(tail)
    size_mb = file.stat().st_size / 2**20
    assert size_mb > 30
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(file), input_format], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["turns"] == count
    assert told["grown_mb"] < 32, f"{told['grown_mb']:.0f} MB for an export of {size_mb:.0f} MB"
