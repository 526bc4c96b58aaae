"""Drivers by name, loaded when first used; packages of others can add their own through entry points."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from mnemon.contracts.errors import InvalidArgument, MissingExtra

# "port:name" -> (module, attribute, extra that installs what it needs)
_BUILT_IN: dict[str, tuple[str, str, str]] = {
    "archive:fs": ("mnemon.drivers.archive.fs", "FsArchive", ""),
    "archive:remote": ("mnemon.drivers.archive.remote", "RemoteArchive", ""),
    "index:sqlite": ("mnemon.drivers.index.sqlite", "SqliteIndex", ""),
    "index:qdrant": ("mnemon.drivers.index.qdrant", "QdrantIndex", "qdrant"),
    "graph:sqlite": ("mnemon.drivers.graph.sqlite", "SqliteGraph", ""),
    "queue:fs": ("mnemon.drivers.queue.fs", "FsQueue", ""),
    "queue:sqlite": ("mnemon.drivers.queue.sqlite", "SqliteQueue", ""),
    "embed:local": ("mnemon.drivers.embed.local", "LocalEmbedder", "local"),
    "embed:openai": ("mnemon.drivers.embed.openai", "OpenAIEmbedder", ""),
    "embed:hash": ("mnemon.drivers.embed.hash", "HashEmbedder", ""),
    "embed:cache": ("mnemon.drivers.embed.cache", "CachedEmbedder", ""),
    "llm:openai": ("mnemon.drivers.llm.providers.openai", "OpenAILLM", "models"),
    "llm:anthropic": ("mnemon.drivers.llm.providers.anthropic", "AnthropicLLM", "models"),
    "llm:gemini": ("mnemon.drivers.llm.providers.gemini", "GeminiLLM", "models"),
    "llm:ollama": ("mnemon.drivers.llm.providers.ollama", "OllamaLLM", "models"),
}
_GROUP = "mnemon.drivers"


def driver(port: str, name: str) -> Any:
    """The class behind `port:name`, or an error that says what there is and what to install."""
    full = f"{port}:{name}"
    if full not in _BUILT_IN:
        found = entry_points(group=_GROUP, name=full)
        if not found:
            known = sorted(k.partition(":")[2] for k in _BUILT_IN if k.startswith(f"{port}:"))
            raise InvalidArgument(f"there is no {port} driver {name!r}; known: {', '.join(known)}", field=port)
        return next(iter(found)).load()
    return loaded(full, *_BUILT_IN[full])


def loaded(what: str, module: str, attribute: str, extra: str) -> Any:
    """Something that is imported only where it is used, or an error that says what to install for it."""
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        if extra and not (error.name or "").startswith("mnemon"):
            raise MissingExtra(f"{what} needs an extra: pip install 'mnemon[{extra}]'", extra=extra) from error
        raise
