"""Chinese as a string of English words, for a model that reads only English; everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from mnemon.drivers.embed.local.dictionary import Dictionary
from mnemon.drivers.embed.local.weights import optional

VERSION = "gloss-1"
"""Changes whenever the same text would be glossed differently: it is part of the model's name."""

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_RUN = re.compile(f"[{_HAN}]+")
_SPACES = re.compile(r"\s+")
_PUNCTUATION = str.maketrans(
    dict(zip("，。！？；：（）、“”‘’《》〈〉【】「」『』…～—·", ',.!?;:(),""\'\'""""[]"""".~- ', strict=True))
)
# The cutter's marks for auxiliaries, modal words, exclamations, sounds and measure words.
_EMPTY_KINDS = ("u", "y", "e", "o")
_MEASURE = "q"
_PERSON = "nr"


def has_chinese(text: str) -> bool:
    return _RUN.search(text) is not None


class Glosser:
    def __init__(self) -> None:
        self._cutter = optional("rjieba")
        self._dictionary = Dictionary()
        listed = resources.files(__package__).joinpath("function_words_zh.txt").read_text("utf-8").splitlines()
        self._dropped = {word for line in listed if not line.startswith("#") for word in line.split()}

    def gloss(self, text: str) -> str:
        """Only runs of Chinese characters are replaced, and the punctuation around them made plain."""
        if not has_chinese(text):
            return text
        english = _RUN.sub(lambda run: f" {' '.join(self._words(run[0]))} ", text.translate(_PUNCTUATION))
        return _SPACES.sub(" ", english).strip()

    def _words(self, run: str) -> Iterator[str]:
        for word, kind in self._cutter.tag(self._dictionary.simplify(run)):
            if word in self._dropped or kind.startswith(_EMPTY_KINDS) or kind == _MEASURE:
                continue
            if word in self._dictionary:
                yield self._dictionary.gloss(word)
                continue
            parts = self._dictionary.parts(word)
            # The cutter takes some pairs of unknown words for a person.
            if kind.startswith(_PERSON) and min(map(len, parts)) == 1:
                yield self._dictionary.pinyin(word)
            else:
                yield from (self._dictionary.gloss(part) for part in parts if part not in self._dropped)
