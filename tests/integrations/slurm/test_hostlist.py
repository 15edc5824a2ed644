"""Slurm hostlists."""

from __future__ import annotations

import pytest

from rlsched.integrations.slurm.hostlist import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cn1", ["cn1"]),
        ("cn[001-003,7],gn[9-10]", ["cn001", "cn002", "cn003", "cn7", "gn9", "gn10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[08-11]-ib", ["a08-ib", "a09-ib", "a10-ib", "a11-ib"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["cn[1-", "cn]1[", "cn[2-1]", "cn[a-b]", "a,,b", "cn[0-999999999]", "a b", "$(x)"]
)
def test_lists_of_nodes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|range|name|stands"):
        expand(text)
