"""docs/reference.md is what the code says now."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_reference_is_current(root: Path) -> None:
    made = runpy.run_path(str(root / "scripts" / "reference.py"))["render"]()
    assert (root / "docs" / "reference.md").read_text(encoding="utf-8") == made, "run: python scripts/reference.py"
