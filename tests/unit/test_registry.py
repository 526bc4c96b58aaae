"""Drivers by name: what there is, what is missing, and what others bring along."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory
from mnemon.contracts.errors import InvalidArgument, MissingExtra, NotFound
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.engine import registry
from mnemon.engine.build import redactor


class Foreign(SqliteIndex):
    """An index somebody else wrote."""

    def __init__(self, url: str, model: str, dimension: int, *, any_model: bool = False) -> None:
        super().__init__(Path(url.removeprefix("foreign://")), model, dimension, any_model=any_model)


def test_every_built_in_driver_loads() -> None:
    for name in registry._BUILT_IN:
        assert callable(registry.driver(*name.split(":")))


def test_an_unknown_driver_names_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="qdrant, sqlite"):
        registry.driver("index", "oracle")


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Any:
        raise ModuleNotFoundError(name="qdrant_client")

    monkeypatch.setattr(registry, "import_module", gone)
    with pytest.raises(MissingExtra, match=r"pip install 'mnemon\[qdrant\]'"):
        registry.driver("index", "qdrant")


def test_a_package_of_others_adds_its_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    point = EntryPoint("index:foreign", f"{__name__}:Foreign", "mnemon.drivers")
    monkeypatch.setattr(registry, "entry_points", lambda **given: EntryPoints([point]).select(**given))
    monkeypatch.setattr(EntryPoint, "load", lambda self: Foreign)
    config = Config(index_url=f"foreign://{tmp_path / 'their.db'}", background_worker=False)
    with Memory(tmp_path / "home", embedder=HashEmbedder(), config=config) as memory:
        memory.session_write("t", "u", "s", turns=[{"role": "user", "text": "花生"}], extract=False)
        assert memory.bind("t", "u").lexical_search("花生").items
    assert (tmp_path / "their.db").exists()


def test_the_same_program_on_another_engine(tmp_path: Path) -> None:
    """`:memory:` → path → URL: only the configuration changes, and the answers do not."""
    answers = []
    turns = [{"role": "user", "text": t} for t in ("我对花生过敏", "不吃辣", "hiking with my sister", "花生酱也不行")]
    for url in ("sqlite", "qdrant://:memory:/mnemon"):
        config = Config(index_url=url, background_worker=False)
        with Memory(tmp_path / url[:6], embedder=HashEmbedder(), config=config) as memory:
            memory.session_write("t", "u", "s", turns=turns, extract=False)
            memory.session_write("t", "v", "s", turns=turns, extract=False)
            memory.rebuild()
            bound = memory.bind("t", "u")
            lexical = [(h.message.message_id, h.highlights) for h in bound.lexical_search("花生 sisters").items]
            semantic = [h.message.message_id for h in bound.semantic_search("peanut 花生")]
            around = [m.content for m in bound.neighbors(semantic[0], before=2, after=2)]
            listed = [m.content for m in bound.messages_list(role="user").items]
            assert memory.verify().notes == []
            answers.append((lexical, semantic, around, listed))
    assert answers[0] == answers[1]


def test_redaction_patterns_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        redactor(Config(redaction_patterns="nowhere.toml"))
    file = tmp_path / "patterns.toml"
    file.write_text("[[pattern", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="patterns"):
        redactor(Config(redaction_patterns=str(file)))
    file.write_text('[[pattern]]\nname = "badge"\nregex = "B-\\\\d{4}"\nreplacement = "[BADGE]"\n', encoding="utf-8")
    config = Config(redact=True, redaction_patterns=str(file), background_worker=False)
    with Memory(tmp_path / "home", embedder=HashEmbedder(), config=config) as memory:
        result = memory.session_write(
            "t", "u", "s", turns=[{"role": "user", "text": "my badge is B-1234"}], extract=False
        )
        assert [(m.pattern, m.count) for m in result.redacted] == [("badge", 1)]
        assert memory.bind("t", "u").messages_list().items[0].content == "my badge is [BADGE]"
