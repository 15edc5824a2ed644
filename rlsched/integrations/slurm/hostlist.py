"""Slurm hostlists, such as cn[001-004,7],gpu1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, product

MAX_NODES = 100_000  # most names that one list may expand to; Slurm supports 65,536 nodes

_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def expand(text: str) -> list[str]:
    """The names in a hostlist, in its order: names with ranges in brackets, separated by commas.

    Raises:
        ValueError: it is not a hostlist, or has too many names.
    """
    names: list[str] = []
    for item in _items(text):
        names += _expand_item(item, MAX_NODES - len(names))
    return names


def _items(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise ValueError("brackets do not match")
        if character == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    if depth:
        raise ValueError("brackets do not match")
    if text:
        yield text[begin:]


def _expand_item(item: str, most: int) -> list[str]:
    choices: list[list[str]] = []
    count = 1
    for ranges, literal in _PARTS.findall(item):
        if literal:
            if not _NAME.fullmatch(literal):
                raise ValueError(f"{literal[:40]!r} is not the name of a node")
            choices.append([literal])
            continue
        numbers = list(chain.from_iterable(_numbers(part, most) for part in ranges.split(",")))
        count *= len(numbers)
        if count > most:
            raise ValueError(f"has more than {MAX_NODES} nodes")
        choices.append(numbers)
    if not choices or count > most:
        raise ValueError("has an empty name" if not choices else f"has more than {MAX_NODES} nodes")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(part: str, most: int) -> list[str]:
    """The numbers of a range, with its leading zeros."""
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"{part[:40]!r} is not a range of numbers")
    first, last = match[1], match[2] or match[1]
    if not 0 <= int(last) - int(first) < most:
        raise ValueError(f"range {part!r} is empty, or has more than {MAX_NODES} nodes")
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
