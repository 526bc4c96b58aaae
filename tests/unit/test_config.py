"""One configuration: file, environment, and errors that name the nearest key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemon import Config
from mnemon.contracts.errors import InvalidArgument, NotFound


def write(folder: Path, text: str) -> Path:
    path = folder / "mnemon.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_need_nothing() -> None:
    config = Config.load(env={})
    assert (config.index_url, config.queue_url, config.embedder.provider) == ("sqlite", "fs", "auto")
    assert config.denoise.tool_text_limit == 8000
    assert config.revisions_kept == 5
    assert config.redact is False


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path, 'index_url = "a"\n[embedder]\nprovider = "hash"\nmodel = "m"\n[denoise]\ntool_text_limit = 5\n'
    )
    env = {"MNEMON_INDEX_URL": "qdrant://x", "MNEMON_EMBEDDER_API_KEY": "k", "MNEMON_REDACT": "true"}
    config = Config.load(path, env)
    assert (config.index_url, config.embedder.provider, config.embedder.model) == ("qdrant://x", "hash", "m")
    assert (config.denoise.tool_text_limit, config.redact) == (5, True)


def test_a_key_never_shows() -> None:
    config = Config.load(env={"MNEMON_EMBEDDER_API_KEY": "very-secret"})
    assert config.embedder.api_key == "very-secret"
    assert "very-secret" not in repr(config)


@pytest.mark.parametrize(
    ("text", "field", "hint"),
    [
        ('indx_url = "x"', "indx_url", "index_url"),
        ('[embedder]\nprovidr = "x"', "embedder.providr", "embedder.provider"),
        ("redact = 1", "redact", "bool"),
        ("[denoise]\ntool_text_limit = 'x'", "denoise.tool_text_limit", "int"),
        ("embedder = 'local'", "embedder", "EmbedderConfig"),
    ],
)
def test_a_mistake_names_the_key_and_the_fix(tmp_path: Path, text: str, field: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Config.load(write(tmp_path, text), {})
    assert caught.value.field == field
    assert hint in caught.value.message


def test_broken_toml_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"mnemon\.toml"):
        Config.load(write(tmp_path, "a = ["), {})
    with pytest.raises(NotFound):
        Config.load(tmp_path / "none.toml", {})


def test_the_example_of_the_docs_is_read(root: Path, tmp_path: Path) -> None:
    text = (root / "docs" / "how-to.md").read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[embedder]" in b)
    config = Config.load(write(tmp_path, block), {})
    assert config.embedder.model == "text-embedding-3-small"
    assert config.denoise.tool_text_limit == 8000
