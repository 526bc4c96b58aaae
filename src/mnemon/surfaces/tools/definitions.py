"""The chat tools as a model is told of them, in the forms model providers take, in Chinese and in English."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, get_args

from mnemon.contracts.errors import InvalidArgument
from mnemon.logic.hints import hint

Form = Literal["openai", "anthropic"]
Language = Literal["zh", "en"]

_ROOM = resources.files("mnemon.surfaces.tools")


@dataclass(frozen=True, slots=True)
class Tool:
    """`name` is the name in the documents; providers take no dot in one, so models know it by `wire_name`. `method` is
    the door of a memory it stands for."""

    method: str
    name: str
    told: dict[str, str]
    parameters: dict[str, dict[str, Any]]

    @property
    def wire_name(self) -> str:
        return self.name.replace(".", "_")

    @property
    def required(self) -> list[str]:
        return [name for name, said in self.parameters.items() if said.get("required")]

    def schema(self, language: Language) -> dict[str, Any]:
        """The arguments as JSON Schema; nothing but these is taken."""
        return {
            "type": "object",
            "properties": {name: _property(said, language) for name, said in self.parameters.items()},
            "required": self.required,
            "additionalProperties": False,
        }


def _property(said: dict[str, Any], language: Language) -> dict[str, Any]:
    ours = {*get_args(Language), "required"}
    return {**{key: value for key, value in said.items() if key not in ours}, "description": said[language]}


def _read() -> tuple[Tool, ...]:
    told = tomllib.loads((_ROOM / "tools.toml").read_text(encoding="utf-8"))
    return tuple(
        Tool(method, row.get("name", method), {lang: row[lang] for lang in get_args(Language)}, row["parameters"])
        for method, row in told.items()
    )


TOOLS = _read()
_PROMPTS = {lang: (_ROOM / f"prompt.{lang}.md").read_text(encoding="utf-8") for lang in get_args(Language)}


def tool_named(name: str) -> Tool:
    """By either of its names."""
    for tool in TOOLS:
        if name in (tool.name, tool.wire_name):
            return tool
    raise InvalidArgument(f"there is no tool {name!r}{hint(str(name), [t.wire_name for t in TOOLS])}", field="name")


def tool_definitions(form: Form = "openai", language: Language = "zh") -> list[dict[str, Any]]:
    """The tools as a provider takes them, for the `tools` of a request. No provider takes a dot in a name:
    `cognitive.search_events` is `cognitive_search_events` here, and `call_tool` knows both."""
    _one_of("form", form, get_args(Form))
    _one_of("language", language, get_args(Language))
    made = []
    for tool in TOOLS:
        named = {"name": tool.wire_name, "description": tool.told[language]}
        schema = tool.schema(language)
        if form == "openai":
            made.append({"type": "function", "function": {**named, "parameters": schema}})
        else:
            made.append({**named, "input_schema": schema})
    return made


def prompt_text(language: Language = "zh") -> str:
    """What belongs into the bot's system prompt: what `end` is told, and when to look something up."""
    _one_of("language", language, get_args(Language))
    return _PROMPTS[language]


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidArgument(f"{name} must be one of {', '.join(known)}, not {value!r}", field=name)
