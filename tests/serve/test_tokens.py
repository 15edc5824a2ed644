"""A token file that other users may open is warned about, once and by whoever starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.serve.api.tokens import Tokens, read_tokens

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (0o620, 1)])
def test_a_token_file_of_others_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: int
) -> None:
    path = tmp_path / "my tokens"
    path.write_text(f"{TOKEN}\n")
    path.chmod(mode)
    assert read_tokens(path) == [TOKEN]
    line = f"{path}: other users may open the token file; run: chmod 600 '{path}'"
    assert caplog.messages == [line] * warned
    assert Tokens(path).renew() == []  # in a replica, again and again
    assert len(caplog.messages) == warned
