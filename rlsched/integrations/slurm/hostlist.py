"""Lists of nodes as Slurm writes them: cn[001-004,7],gpu1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, product

MOST = 100_000
"""Names that one list may stand for: Slurm knows 65,536 nodes."""

_PARTS = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def expand(text: str) -> list[str]:
    """The names that a list stands for, in its order.

    Args:
        text: names with ranges in brackets, separated by commas.

    Raises:
        ValueError: it is no such list, or stands for too many.
    """
    names: list[str] = []
    for item in _items(text):
        names += _expand_item(item, MOST - len(names))
    return names


def _items(text: str) -> Iterator[str]:
    """Between the commas that stand outside of brackets."""
    depth, begin = 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth not in (0, 1):
            raise ValueError("brackets do not match")
        if sign == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if depth:
        raise ValueError("brackets do not match")
    if text:
        yield text[begin:]


def _expand_item(item: str, most: int) -> list[str]:
    choices: list[list[str]] = []
    count = 1
    for ranges, plain in _PARTS.findall(item):
        if plain:
            if not _NAME.fullmatch(plain):
                raise ValueError(f"{plain[:40]!r} is no name of a node")
            choices.append([plain])
            continue
        found = list(chain.from_iterable(_numbers(part, most) for part in ranges.split(",")))
        count *= len(found)
        if count > most:
            raise ValueError(f"stands for more than {MOST} nodes")
        choices.append(found)
    if not choices or count > most:
        raise ValueError("holds an empty name" if not choices else f"stands for more than {MOST} nodes")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(part: str, most: int) -> list[str]:
    """Of a range, with the zeros it is written with."""
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"{part[:40]!r} is no range of numbers")
    first, last = match[1], match[2] or match[1]
    if not 0 <= int(last) - int(first) < most:
        raise ValueError(f"range {part!r} is empty, or stands for more than {MOST} nodes")
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
