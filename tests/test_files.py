"""Files that are written whole: what is said where they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.files import write_whole


@pytest.mark.parametrize("name", ["/proc/x.json", "/proc/self/x.json"])
def test_an_error_names_the_file_as_it_was_given(name: str) -> None:
    """Nobody may write there, root neither."""
    with pytest.raises(OSError, match=r"x\.json") as refused:
        write_whole(Path(name), b"{}")
    assert refused.value.filename == name
    assert ".part" not in str(refused.value)
