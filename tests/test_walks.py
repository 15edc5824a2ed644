"""Walks through the code: at most eight stops each, all of which exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/walks.md"
STOP = re.compile(r"^(\d+)\. `([\w/]+\.py)` `(\w+)`: ", re.MULTILINE)
MOST_STOPS = 8

WALKS = dict(part.split("\n", 1) for part in PAGE.read_text("utf-8").split("\n## ")[1:])


@pytest.mark.parametrize("walk", WALKS)
def test_stops_are_functions_of_their_files(walk: str) -> None:
    stops = STOP.findall(WALKS[walk])
    assert [int(number) for number, *_ in stops] == list(range(1, len(stops) + 1))
    assert 2 <= len(stops) <= MOST_STOPS
    for _, file, function in stops:
        tree = ast.parse((ROOT / "rlsched" / file).read_text("utf-8"))
        defined = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert function in defined, f"{file} defines no {function}"


def test_every_line_of_a_list_is_a_stop() -> None:
    listed = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\d+\.", line)]
    assert all(STOP.match(line) for line in listed)
    assert len(WALKS) == 5
