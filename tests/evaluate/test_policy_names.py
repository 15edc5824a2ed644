"""Policies as they are named on command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import parse_spec


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sjf", ("sjf", None, None)),
        ("sjf:easy", ("sjf", "easy", None)),
        ("sjf:0.5", ("sjf", None, 0.5)),
        ("qos:now:2", ("qos", "now", 2.0)),
        ("qos:0.5:now", ("qos:0.5", "now", None)),  # no such order, which is said of it
        ("sjf:eazy", ("sjf", "eazy", None)),
        ("runs/a", ("runs/a", None, None)),
        ("runs/a:0.5", ("runs/a", None, 0.5)),
        ("runs/10:30", ("runs/10", None, 30.0)),
        ("runs/a:b", ("runs/a:b", None, None)),
        ("runs/a:easy", ("runs/a", "easy", None)),
    ],
)
def test_one_syntax_for_all(text: str, named: tuple[str, str | None, float | None]) -> None:
    assert parse_spec("--policy", text, shares=True) == named


@pytest.mark.parametrize("share", ["0", "-1", "inf", "nan", "1e999"])
def test_shares_are_numbers_above_0(share: str) -> None:
    with pytest.raises(BadInputError, match=f"share '{share}' is no number above 0"):
        parse_spec("--policy", f"sjf:{share}", shares=True)


def test_a_share_is_for_collect_only() -> None:
    with pytest.raises(
        BadInputError, match=r"--against: 'sjf:0\.5' has a share, 0\.5, which is not supported"
    ):
        parse_spec("--against", "sjf:0.5")


def test_a_folder_may_be_called_like_one_with_a_share(tmp_path: Path) -> None:
    folder = tmp_path / "run:0.5"
    folder.mkdir()
    assert parse_spec("--against", str(folder)).name == str(folder)
