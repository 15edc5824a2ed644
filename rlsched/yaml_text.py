"""YAML as settings are written in it, within limits: a short text cannot expand to a large value."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError

MOST_NODES = 50_000
"""Values in a document; the values of an alias count each time."""

MOST_DEPTH = 50
"""Mappings and lists inside each other."""

MERGE = "tag:yaml.org,2002:merge"

LONGEST_NUMBER = 64
"""Characters of a number; longer ones are no measurement, and slow to read."""


def parse_yaml(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        yaml.YAMLError: it is not YAML, or goes beyond a limit of this module.
    """
    return yaml.load(text, _Settings)


def reason(error: yaml.YAMLError) -> str:
    """The problem of a document, and its line."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return str(error)
    mark = error.problem_mark
    return error.problem if mark is None else f"{error.problem}, line {mark.line + 1}"


class LimitedLoader(yaml.SafeLoader):
    """Safe loader that also refuses repeated keys, and texts that take much time or memory to construct."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0
        self._sizes: dict[str, int] = {}  # anchor -> values in its node; those of open nodes are missing

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node, and count it: an alias for as many values as its anchor has."""
        event: yaml.NodeEvent = self.peek_event()  # type: ignore[no-untyped-call]
        before, anchor = self._nodes, event.anchor or ""
        alias = isinstance(event, yaml.AliasEvent)
        if alias:
            if anchor in self.anchors and anchor not in self._sizes:
                raise _refused(f"alias {anchor!r} stands for a value that holds it", event)
            self._nodes += self._sizes.get(anchor, 0)
        elif anchor:
            self._sizes.pop(anchor, None)  # of another document
        self._nodes += 1
        self._depth += 1
        if self._nodes > MOST_NODES:
            raise _refused(f"has more than {MOST_NODES:,} values, with those of its aliases", event)
        if self._depth > MOST_DEPTH:
            raise _refused(f"nests deeper than {MOST_DEPTH} levels", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if anchor and not alias:
            self._sizes[anchor] = self._nodes - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping without repeated keys: PyYAML would keep the last value of each."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            if (key.tag, key.value) in keys:
                problem = f"key {key.value[:80]!r} stands twice"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
            keys.add((key.tag, key.value))
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; say where it is that text does not fit its type, as in 2026-13-45."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"{str(node.value)[:60]!r} is no {kind}"
            raise ConstructorError(None, None, problem, node.start_mark) from None

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Construct an integer or a float of a reasonable length."""
        length = len(node.value)
        if length > LONGEST_NUMBER:
            problem = f"a number of {length:,} characters; at most {LONGEST_NUMBER} are read"
            raise ConstructorError(None, None, problem, node.start_mark)
        whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


class _Settings(LimitedLoader):
    """Loader that refuses numbers which YAML 1.1 reads in an unexpected base: 010 (8) and 1:10 (70)."""

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Construct a number that everyone reads alike."""
        value = super().construct_number(node)
        digits = node.value.lstrip("+-")
        if ":" in digits or (isinstance(value, int) and digits[:1] == "0" and digits[1:2].isdigit()):
            problem = f"{node.value!r} is {value} in YAML; write the number, or quote the text"
            raise ConstructorError(None, None, problem, node.start_mark)
        return value


for _loader in (LimitedLoader, _Settings):
    for _kind in ("int", "float"):
        _loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _loader.construct_number)


def _refused(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # the type stubs have two kinds of marks
    return yaml.MarkedYAMLError(None, None, problem, mark)
