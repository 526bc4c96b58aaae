"""What a bot's model is given: the chat tools as definitions, a text for its prompt, and somebody to do its calls."""

from mnemon.surfaces.tools.calling import ChatTurn, call_tool, call_tool_async
from mnemon.surfaces.tools.definitions import Form, Language, prompt_text, tool_definitions

__all__ = ["ChatTurn", "Form", "Language", "call_tool", "call_tool_async", "prompt_text", "tool_definitions"]
