"""YAML as cluster tools read it, but for what they swallow: keys that are no words."""

from __future__ import annotations

from typing import Any

import yaml

from rlsched.errors import BadInputError
from rlsched.yaml_text import MERGE, LimitedLoader


class _Strict(LimitedLoader):
    """Safe, and with an eye on keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse `on:`, which is true."""
        for key, _ in node.value:
            if key.tag not in (MERGE, "tag:yaml.org,2002:str") or not isinstance(key, yaml.ScalarNode):
                said = getattr(key, "value", "a collection")
                raise yaml.MarkedYAMLError(None, None, f"key {said!r} is no text: quote it", key.start_mark)
        return super().construct_mapping(node, deep)


def read_documents(text: str, where: str) -> list[Any]:
    """All documents of a YAML file, but for empty ones.

    Args:
        text: of the file.
        where: it is from.

    Raises:
        BadInputError: it is not YAML, or has a key twice; with the line.
    """
    try:
        return [found for found in yaml.load_all(text, _Strict) if found is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f": line {mark.line + 1}" if mark is not None else ""
        raise BadInputError(f"{where}{line}", f"{error.problem}", "mend the YAML") from None
    except yaml.YAMLError as error:
        raise BadInputError(where, f"is not YAML ({error})", "mend the syntax") from None


def at(value: Any, *path: str | int) -> Any:
    """What stands at a path; None where nothing does, or something else than a mapping or list on the way."""
    for key in path:
        there = (
            key in value if isinstance(value, dict) else isinstance(value, list) and key in range(len(value))
        )
        if not there:
            return None
        value = value[key]
    return value
