"""The rules provider: Chinese and English read by tables of patterns, deterministic, and silent where in doubt."""

from mnemon.logic.rules.deciding import decide
from mnemon.logic.rules.extracting import extract
from mnemon.logic.rules.lines import is_of_group, topic_of
from mnemon.logic.rules.summarising import summarise
from mnemon.logic.rules.tagging import tag

__all__ = ["decide", "extract", "is_of_group", "summarise", "tag", "topic_of"]
