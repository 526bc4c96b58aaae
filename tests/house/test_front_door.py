"""The front door equals its promise, and the sync and async faces are one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mnemon
from mnemon.contracts import errors
from mnemon.contracts.errors import MnemonError
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.engine.graph import AsyncGraphView
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.sync import BoundMemory, Cognitive, GraphView, Memory

PROMISED = {"AsyncMemory", "Config", "Memory", "Scope", "Span", "Turn", "errors", "tools"}


def test_the_front_door_lists_what_it_promises() -> None:
    assert set(mnemon.__all__) == PROMISED
    assert {n for n in vars(mnemon) if not n.startswith("_")} - {
        "contracts",
        "engine",
        "logic",
        "drivers",
    } <= PROMISED | {
        "pipelines",
        "surfaces",
        "testing",
    }


def public(cls: type) -> dict[str, Any]:
    return {n: f for n, f in inspect.getmembers(cls, inspect.isfunction) if not n.startswith("_")}


@pytest.mark.parametrize(
    ("sync", "asynchronous"),
    [
        (Memory, AsyncMemory),
        (BoundMemory, AsyncBoundMemory),
        (GraphView, AsyncGraphView),
        (Cognitive, AsyncCognitive),
    ],
)
def test_both_faces_have_the_same_methods_and_signatures(sync: type, asynchronous: type) -> None:
    assert public(sync).keys() == public(asynchronous).keys()
    for name, method in public(asynchronous).items():
        ours = inspect.signature(public(sync)[name])
        theirs = inspect.signature(method)
        assert ours.parameters == theirs.parameters, name
        assert (public(sync)[name].__doc__ or "") == (method.__doc__ or ""), name
        assert not inspect.iscoroutinefunction(public(sync)[name]), name
    ours_init, theirs_init = (inspect.signature(c.__init__) for c in (sync, asynchronous))
    if sync is Memory:
        assert ours_init.parameters == theirs_init.parameters


def test_every_method_of_the_front_door_is_explained() -> None:
    for cls in (Memory, AsyncMemory):
        assert all(f.__doc__ for f in public(cls).values())


def all_errors(cls: type[MnemonError] = MnemonError) -> set[type[MnemonError]]:
    return {cls}.union(*(all_errors(c) for c in cls.__subclasses__()))


@pytest.mark.parametrize("cls", sorted(all_errors(), key=lambda c: c.__name__))
def test_every_error_knows_its_code_status_and_exit(cls: type[MnemonError]) -> None:
    if cls.__module__ != "mnemon.contracts.errors":
        return
    error = cls(field="x")
    assert error.message
    assert error.message == (cls.__doc__ or "").strip()
    assert 400 <= error.status < 600
    assert 0 < error.exit_code < 128
    assert error.envelope()["error"] == {"code": error.code, "message": error.message, "details": {"field": "x"}}
    assert error.field == "x"
    with pytest.raises(AttributeError):
        _ = error.nothing


def test_the_tree_at_the_top_of_the_errors_is_complete() -> None:
    drawn = errors.__doc__ or ""
    for cls in all_errors():
        if cls.__module__ == "mnemon.contracts.errors":
            assert cls.__name__ in drawn, cls.__name__
