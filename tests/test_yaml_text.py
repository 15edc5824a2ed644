"""YAML that is short and stands for much, or for nothing that can be: one line, soon."""

from __future__ import annotations

import pytest

from rlsched.errors import BadInputError
from rlsched.settings_files import read_yaml
from rlsched.yaml_text import MOST_DEPTH, MOST_NODES, parse_yaml


def laughs(first: str, line: str) -> str:
    """Ten lines, each with nine aliases of the one before."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{k}: &a{k} {line.format(', '.join([f'*a{k - 1}'] * 9))}" for k in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (laughs("[x]", "[{}]"), f"has more than {MOST_NODES:,} values, with those of its aliases"),
        (laughs("{x: 1}", "{{<<: [{}]}}"), f"has more than {MOST_NODES:,} values"),
        ("a: &a [*a]", "alias 'a' stands for a value that holds it"),
        ("a: " + "[" * 5000, f"nests deeper than {MOST_DEPTH} levels"),
        ("- " * 5000, f"nests deeper than {MOST_DEPTH} levels"),
        ("a: " + "9" * 5000, "a number of 5,000 characters; at most 64 are read"),
        ("a: 0x" + "f" * 5000, "a number of 5,002 characters"),
        ("a: " + "1:" * 5000 + "1.5", "a number of 10,003 characters"),
        ("b: 1\na: 2026-13-45", "is not YAML ('2026-13-45' is no timestamp, line 2)"),
        ("a: !!bool maybe", "'maybe' is no bool"),
        ("a: !!timestamp x", "'x' is no timestamp"),
        ("a: !!int ''", "'' is no int"),
        ("a: 1\nb: 2\na: 3", "key 'a' stands twice, line 3"),
        ("a: {b: 1, c: {d: 1, 'd': 2}}", "key 'd' stands twice, line 1"),
        ("a: 1\n" + "x" * 500 + ": 1\n" + "x" * 500 + ": 1", "xxx' stands twice, line 3"),
        ("a: 010", "'010' is 8 in YAML; write the number, or quote the text, line 1"),
        ("a: 1:10", "'1:10' is 70 in YAML"),
        ("a: 1:10.5", "'1:10.5' is 70.5 in YAML"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_yaml(text, "mine.yaml")
    line = str(caught.value)
    assert line.startswith("mine.yaml: is not YAML (")
    assert problem in line
    assert "\n" not in line
    assert len(line) < 500


def test_aliases_and_merge_keys_of_a_usual_size_are_read() -> None:
    text = "a: &a {b: 1, c: 1.5}\nd: {<<: *a, b: 2}\ne: [*a, *a]\nf: 2026-01-02\ng: 12_000"
    result = read_yaml(text, "mine.yaml")
    assert result["d"] == {"b": 2, "c": 1.5}
    assert result["e"] == [{"b": 1, "c": 1.5}] * 2
    assert result["g"] == 12_000
    assert parse_yaml("1e3") == "1e3"  # as PyYAML has it
    assert parse_yaml("[0, 0.5, 0x10, -0, 0_1.5, '010', 12:99]") == [0, 0.5, 16, 0, 1.5, "010", "12:99"]
    assert parse_yaml("{1: a, '1': b, <<: {c: d}}") == {1: "a", "1": "b", "c": "d"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# nothing", "is empty"),
        ("- 1", "holds a list"),
        ("three", "holds one value, 'three'"),
    ],
)
def test_settings_are_a_mapping(text: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=f"^mine.yaml: {problem}; give a mapping of keys to values$"):
        read_yaml(text, "mine.yaml")
