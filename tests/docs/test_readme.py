"""Every code block of the READMEs and the how-to is run, as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ("README.md", "README.zh-CN.md", "docs/how-to.md", "docs/graph.md", "docs/chat-memory.md", "docs/recall.md")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, int, str]]:
    found = []
    for name in DOCS:
        text = (ROOT / name).read_text(encoding="utf-8")
        found += [(name, text[: m.start()].count("\n") + 2, m[2]) for m in _BLOCK.finditer(text) if m[1] == language]
    return found


def ids(found: list[tuple[str, int, str]]) -> list[str]:
    return [f"{name}:{line}" for name, line, _ in found]


PYTHON, SHELL, TOML = blocks("python"), blocks("sh"), blocks("toml")


def environment() -> dict[str, str]:
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "error"}


def test_there_is_something_to_run() -> None:
    assert len(PYTHON) >= 6
    assert len(SHELL) == 6


@pytest.mark.local_model
@pytest.mark.parametrize(("name", "line", "code"), PYTHON, ids=ids(PYTHON))
def test_python_block(name: str, line: int, code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"^ +# (.*)$", code, flags=re.MULTILINE)
    if promised:
        assert done.stdout.split("\n")[:-1] == promised


@pytest.mark.local_model
@pytest.mark.parametrize(("name", "line", "code"), SHELL, ids=ids(SHELL))
def test_shell_block(name: str, line: int, code: str, tmp_path: Path) -> None:
    is_setup = "scripts/" in code
    env = environment()
    if is_setup and name != "README.md":
        pytest.skip("the same two commands as in README.md, which are run there")
    if is_setup:
        del env["PYTHONWARNINGS"]  # pip's own warnings are not ours
        # scripts/test inside a test would run itself: it installs and checks everything and collects, but runs nothing.
        env["PYTEST_ADDOPTS"] = "--collect-only -q"
    cwd = ROOT if is_setup else tmp_path
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-euo", "pipefail", "-c", code], cwd=cwd, capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if not is_setup:
        assert "I don't eat spicy food any more." in done.stdout
        assert ("ready" if "mnemon serve" in code else "proven") in done.stdout


def test_both_readmes_say_the_same() -> None:
    english, chinese = ((ROOT / n).read_text(encoding="utf-8") for n in ("README.md", "README.zh-CN.md"))

    def outline(text: str) -> list[tuple[str, int]]:
        # Headings in order, and how many code blocks and list items stand under each.
        parts = re.split(r"^#+ .*$", text, flags=re.MULTILINE)
        return [
            (str(i), p.count("```") * 100 + len(re.findall(r"^(?:\* |\|)", p, re.MULTILINE)))
            for i, p in enumerate(parts)
        ]

    assert outline(english) == outline(chinese)
    without_comments = [re.sub(r"#.*", "", "".join(b for n, _, b in PYTHON + SHELL if n == name)) for name in DOCS[:2]]
    assert without_comments[0].split() == without_comments[1].split()


def test_the_first_result_is_on_the_first_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert next(i for i, line in enumerate(lines) if line.startswith("```python")) < 25
    setup = next(b for n, _, b in SHELL if n == "README.md")
    commands = [line.split("#")[0].strip() for line in setup.splitlines() if line.strip()]
    assert commands == ["scripts/demo", "scripts/test"]


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target
