"""The page of faults names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "experiments" / "0014-faults-and-their-tests.md"


def test_each_test_that_is_named_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)?(?:::(\w+))?`", PAGE.read_text("utf-8"))
    assert len(named) > 80
    text = ""
    for file, test in named:
        if file:
            text = (Path(__file__).parent / file).read_text("utf-8")
        assert f"def {test}" in text, (file, test)
