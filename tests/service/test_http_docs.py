"""docs/service.md does what it says: its requests are sent to a real service, as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from server import mnemon, running

from mnemon.contracts import errors
from mnemon.contracts.errors import MnemonError
from mnemon.engine.config import Config

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_curl_lines_work(page: str, tmp_path: Path) -> None:
    curl, bash = shutil.which("curl"), shutil.which("bash")
    if curl is None or bash is None:
        pytest.skip("needs curl and bash on the PATH")
    start, use, bot = [code for language, code in _BLOCK.findall(page) if language == "sh"]
    made = next(line for line in start.splitlines() if line.startswith("mnemon token create"))
    token = mnemon(*made.split("#")[0].split()[1:], home=tmp_path)
    with running(tmp_path) as service:
        env = {**os.environ, "TOKEN": token, "MNEMON": service.url}
        script = (use + bot).replace("curl -sS", "curl -sS --fail-with-body -w '\\n'")
        done = subprocess.run(
            [bash, "-euo", "pipefail", "-c", script], capture_output=True, text=True, env=env, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == (use + bot).count("curl -sS")
    *answers, ended, context, tools = answers
    assert ended["status"] == "queued"
    assert context["tokens"] >= 0
    assert tools["tools"][0]["function"]["name"] == "end"
    written, committed, asked, _, words, receipt, found, _, history, entities, claims, forgotten = answers
    assert written["status"] == "ok"
    assert committed["status"] == "success"
    assert "I don't eat spicy food any more." in json.dumps(asked)
    assert words["items"][0]["message"]["content"] == "我妹妹住在成都。"
    assert receipt["version"] == 1
    assert found["hits"][0]["entry"]["contents"] == ["Ann drinks tea."]
    assert [v["op"] for v in history["items"]] == ["update", "write"]
    assert [e["name"] for e in entities["items"]] == ["妹妹"]
    assert len(claims["items"]) == 4, "of the session, and of the one that was committed"
    assert forgotten["left"] == []


def test_every_code_and_setting_is_told(page: str, tmp_path: Path) -> None:
    codes = {c.code for c in vars(errors).values() if isinstance(c, type) and issubclass(c, MnemonError)}
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []
    (settings,) = (code for language, code in _BLOCK.findall(page) if language == "toml")
    file = tmp_path / "mnemon.toml"
    file.write_text(settings)
    assert Config.load(file, {}) == Config()
