"""Bodies that are wrong, made from the description of right ones."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

ODD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**40,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "a",
    "1",
    "\x00",
    "\ud800",
    "x" * 300,
    "\U0001f9ee",
    [],
    {},
    [[]],
    [{}],
    {"id": 1},
    [None],
    [1, "a"],
    [0] * 20,
)


class Writer:
    """Writes bodies.

    Args:
        description: the OpenAPI description.
        seed: of what is drawn.
    """

    def __init__(self, description: dict[str, Any], seed: int) -> None:
        self._schemas = description["components"]["schemas"]
        self._paths = {
            path: content["post"]["requestBody"]["content"]["application/json"]["schema"]
            for path, content in description["paths"].items()
            if "post" in content
        }
        self._rng = random.Random(seed)

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Paths and bodies, for ever; few of them are right."""
        rng = self._rng
        while True:
            path = rng.choice(sorted(self._paths))
            value = self._of(self._paths[path], 0)
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                value = self._spoilt(value)
            text = self._text(value)
            yield path, self._encoded(text)

    def _of(self, schema: dict[str, Any], depth: int, length: int | None = None) -> Any:
        """A value as a schema has it; a list of that length."""
        rng = self._rng
        if "$ref" in schema:
            return self._of(self._schemas[schema["$ref"].rsplit("/", 1)[1]], depth + 1)
        if "anyOf" in schema:
            return self._of(rng.choice(schema["anyOf"]), depth, length)
        kind = schema.get("type")
        if kind == "object":
            wanted, parts = schema.get("required", []), schema.get("properties", {})
            jobs = rng.randrange(3)
            # Columns are of one cluster, and of its jobs: lists of other lengths say nothing.
            clusters = 1 if parts.get("now", {}).get("type") == "array" else None
            length = jobs if "jobs" in parts else clusters
            result = {
                name: self._of(part, depth, length)
                for name, part in parts.items()
                if name in wanted or rng.random() < 0.4
            }
            return result | {"jobs": [jobs]} if "jobs" in parts else result
        if kind == "array":
            if length is None:
                length = schema.get("minItems", 0) + rng.randrange(3)
            return [self._of(schema["items"], depth) for _ in range(length)]
        if kind == "integer":
            return schema.get("minimum", 0) + rng.choice((0, 1, 60, 3600, rng.randrange(10**6)))
        if kind == "number":
            return rng.choice((0.5, 1.0, rng.random()))
        if kind == "boolean":
            return rng.random() < 0.5
        return None if kind == "null" else rng.choice(("default", "a", "b", str(rng.randrange(99))))

    def _spoilt(self, value: Any) -> Any:
        """With one thing wrong somewhere in it."""
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.85:
            name = rng.choice(sorted(value))
            return rng.choice(
                (
                    lambda: {**value, name: self._spoilt(value[name])},
                    lambda: {**value, name: rng.choice(ODD)},
                    lambda: {second: part for second, part in value.items() if second != name},
                    lambda: {**value, rng.choice(("", "nme", name + "s", name.upper())): value[name]},
                )
            )()
        if isinstance(value, list) and value and rng.random() < 0.85:
            k = rng.randrange(len(value))
            return rng.choice(
                (
                    lambda: [*value[:k], self._spoilt(value[k]), *value[k + 1 :]],
                    lambda: [*value[:k], rng.choice(ODD), *value[k + 1 :]],
                    lambda: value + value,
                    lambda: value * rng.choice((50, 500)),
                )
            )()
        return rng.choice(ODD)

    def _text(self, value: Any) -> str:
        rng = self._rng
        text = json.dumps(value)  # NaN and Infinity stand there as such
        kind = rng.random()
        if kind < 0.05:
            return text[: rng.randrange(len(text) + 1)]
        if kind < 0.08:
            depth = rng.choice((500, 5_000, 100_000))
            return text.replace("[", "[" * depth, 1) if "[" in text else "[" * depth
        if kind < 0.10:
            return '{"states":' * rng.choice((100, 5_000)) + text
        if kind < 0.12:
            return text + rng.choice(("x", "{}", "\x00", ","))
        if kind < 0.14:
            return text.replace(":", "=", 1)
        if kind < 0.16:
            return text.replace("1", "1" * rng.choice((20, 400, 5_000)), 1)
        if kind < 0.17:
            return text.replace("0", "1e999", 1)
        return text

    def _encoded(self, text: str) -> bytes:
        rng = self._rng
        kind = rng.random()
        plain = text.encode("utf-8", "surrogatepass")
        if kind < 0.03:
            return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")), "surrogatepass")
        if kind < 0.04:
            return gzip.compress(plain)
        if kind < 0.06 and plain:
            k = rng.randrange(len(plain))
            return plain[:k] + bytes([rng.randrange(128, 256)]) + plain[k + 1 :]
        if kind < 0.07:
            return rng.randbytes(rng.randrange(200))
        return plain
