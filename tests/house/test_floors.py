"""The house: floors look only down, drivers keep apart, vendors stay in their rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
# A floor may import itself and what stands below it here. Drivers may use logic; logic never uses drivers.
FLOORS = ["contracts", "logic", "drivers", "pipelines", "engine", "surfaces"]
MAY_USE = {
    "contracts": {"contracts"},
    "logic": {"contracts", "logic"},
    "drivers": {"contracts", "logic", "drivers"},
    "pipelines": {"contracts", "logic", "pipelines"},
    "engine": {"contracts", "logic", "drivers", "pipelines", "engine"},
    "surfaces": {"contracts", "logic", "pipelines", "engine", "surfaces"},
    "testing": {"contracts", "logic", "drivers", "testing"},
    "errors": {"contracts"},
}
VENDORS = {"qdrant", "sqlite", "chroma", "neo4j", "postgres", "openai", "minilm"}
FILES = sorted(SRC.rglob("*.py"))


def floor_of(path: Path) -> str:
    return path.relative_to(SRC / "mnemon").parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield str(node.module), node
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_floors_look_only_down(path: Path) -> None:
    floor = floor_of(path)
    if floor == "__init__":
        return
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "mnemon" and len(parts) > 1:
            assert parts[1] in MAY_USE[floor], f"{floor} must not import {name}"


@pytest.mark.parametrize("path", [p for p in FILES if floor_of(p) == "drivers"], ids=lambda p: str(p.relative_to(SRC)))
def test_drivers_never_import_each_other(path: Path) -> None:
    here = path.relative_to(SRC / "mnemon" / "drivers").with_suffix("").parts
    for name, _ in imports(path):
        parts = tuple(name.split("."))
        shared = (SRC / "mnemon" / "drivers" / f"{parts[2] if len(parts) > 2 else ''}.py").exists()
        if parts[:2] == ("mnemon", "drivers") and len(parts) > 3 and not shared:
            assert parts[2:4] == here[:2], f"{'.'.join(here)} imports its sibling {name}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if floor_of(p) == "pipelines"], ids=lambda p: str(p.relative_to(SRC))
)
def test_pipelines_name_no_vendor(path: Path) -> None:
    text = path.read_text(encoding="utf-8").lower()
    assert not [v for v in VENDORS if v in text]


@pytest.mark.parametrize("path", [p for p in FILES if floor_of(p) in ("contracts", "logic")], ids=lambda p: p.stem)
def test_contracts_and_logic_are_pure(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    forbidden = {"asyncio", "socket", "httpx", "sqlite3", "subprocess", "threading", "time", "tempfile", "os", "random"}
    used = {name.split(".")[0] for name, _ in imports(path)} & forbidden
    assert not used, f"{path.name} uses {used}"
    if floor_of(path) == "logic":
        assert not any(isinstance(n, ast.AsyncFunctionDef | ast.Await) for n in ast.walk(tree))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_no_import_inside_a_function(path: Path) -> None:
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inside, f"{path}:{function.lineno} {function.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_no_room_without_a_name() -> None:
    assert not [p for p in FILES if p.stem in ("utils", "helpers", "common", "manager", "misc")]


def test_no_file_or_function_grows_out_of_hand() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= (1200 if floor_of(path) == "testing" else 600), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno <= 80, f"{path}:{node.lineno} {node.name}"
