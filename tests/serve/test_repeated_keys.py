"""Keys that stand twice in an object of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.json_files import parse_json
from rlsched.serve.api.repeated_keys import MOST_KEYS, MOST_LEVELS, check_repeats

NAMES = st.sampled_from(["a", "b", "ab", 'a"', "a\\", "é", ":", "{", ""])
SCALARS = st.none() | st.integers(-9, 9) | NAMES


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists, and objects as lists of pairs, in which a key may stand twice."""
    return st.lists(values, max_size=3) | st.lists(st.tuples(NAMES, values), max_size=4).map(tuple)


def written(value: Any, blank: str) -> str:
    if isinstance(value, tuple):
        pairs = [f"{json.dumps(key)}{blank}:{blank}{written(inner, blank)}" for key, inner in value]
        return "{" + blank + f"{blank},".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + f",{blank}".join(written(inner, blank) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(value=st.recursive(SCALARS, objects, max_leaves=20), blank=st.sampled_from(["", " ", "\n\t"]))
def test_the_same_as_python_finds(value: Any, blank: str) -> None:
    text = written(value, blank).encode()
    assert problem_of(check_repeats, text) == problem_of(parse_json, text)


def problem_of(check: Callable[[bytes], object], text: bytes) -> str | None:
    try:
        check(text)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("depth", [MOST_LEVELS, MOST_LEVELS + 1])
def test_beyond_its_room_the_slow_way_finds_the_same(depth: int) -> None:
    text = '{"a": ' * depth + '{"b": 1, "b": 2}' + "}" * depth
    with pytest.raises(ValueError, match="key 'b' stands twice"):
        check_repeats(text.encode())
    wide = json.dumps({str(k): k for k in range(MOST_KEYS * 2)})
    check_repeats(wide.encode())
    with pytest.raises(ValueError, match="key '7' stands twice"):
        check_repeats((wide[:-1] + ', "7": 1}').encode())


def test_an_escape_hides_no_key() -> None:
    with pytest.raises(ValueError, match="key 'a' stands twice"):
        check_repeats(rb'{"a": 1, "\u0061": 2}')
