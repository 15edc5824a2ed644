"""Domains of searched settings: listed values, or a range."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import Field, model_validator
from ray import tune

from rlsched.settings import Frozen, SettingError

Point = Mapping[str, Any]
"""The settings of one trial: name -> value."""

Range = Annotated[tuple[float, float], Field(description="lowest and highest")]
LARGEST_INTEGER = 2**53
"""Every integer up to this one is exact as a floating-point number."""

KINDS = ("values", "uniform", "log_uniform", "integers", "log_integers")


class Domain(Frozen):
    """The values that one setting may have; exactly one of the fields is set."""

    values: tuple[Any, ...] | None = Field(None, min_length=1, description="a list of values")
    uniform: Range | None = Field(None, description="range, uniform")
    log_uniform: Range | None = Field(None, description="range, uniform in the logarithm")
    integers: tuple[int, int] | None = Field(None, description="range of integers, both ends included")
    log_integers: tuple[int, int] | None = Field(None, description="likewise, uniform in the logarithm")

    @model_validator(mode="before")
    @classmethod
    def _no_bare_values(cls, values: object) -> object:
        if isinstance(values, list | tuple):
            raise SettingError("", f"value {list(values)} names no kind", f"write {{values: {list(values)}}}")
        if not isinstance(values, dict | Domain):
            raise SettingError("", f"value {values} is one value", f"write {{values: [{values}]}}, or set it")
        return values

    @model_validator(mode="after")
    def _one_kind(self) -> Domain:
        kinds = [name for name in KINDS if getattr(self, name) is not None]
        if len(kinds) != 1:
            problem = f"sets {' and '.join(kinds) or 'nothing'}"
            raise SettingError("", problem, f"set exactly one of {', '.join(KINDS)}")
        if self.values is not None:
            texts = [text(value) for value in self.values]
            if twice := next((value for value in texts if texts.count(value) > 1), None):
                raise SettingError("values", f"have {twice} twice", "list each value once")
        else:
            low, high = self.bounds
            if self.is_integer and max(abs(low), abs(high)) > LARGEST_INTEGER:
                problem = f"value [{low:g}, {high:g}] is too large"
                raise SettingError(kinds[0], problem, f"stay within {LARGEST_INTEGER:,}")
            if not low < high:
                raise SettingError(kinds[0], f"value [{low:g}, {high:g}] is empty", "give [lowest, highest]")
            if self.logarithmic and low <= 0:
                raise SettingError(kinds[0], f"value {low:g} has no logarithm", "start above 0")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest value of a range."""
        bounds = self.uniform or self.log_uniform or self.integers or self.log_integers
        assert bounds is not None
        return bounds

    @property
    def logarithmic(self) -> bool:
        """Whether the range is uniform in the logarithm."""
        return self.log_uniform is not None or self.log_integers is not None

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        listed = self.values or ()
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed)

    @property
    def size(self) -> int | None:
        """Number of values; None: a range of real numbers."""
        if self.values is not None:
            return len(self.values)
        return int(self.bounds[1] - self.bounds[0]) + 1 if self.is_integer else None

    @property
    def is_integer(self) -> bool:
        """Whether it is a range of integers."""
        return self.integers is not None or self.log_integers is not None

    def extremes(self) -> tuple[Any, ...]:
        """The values to check: every listed one, or both ends of a range."""
        return self.bounds if self.values is None else self.values

    def draw(self, rng: np.random.Generator) -> Any:
        """A random value."""
        if self.values is not None:
            return self.values[rng.integers(len(self.values))]
        low, high = self.bounds
        if self.logarithmic:
            edge = 0.5 if self.is_integer else 0.0  # both ends are as likely as other integers
            drawn = float(np.exp(rng.uniform(np.log(low - edge), np.log(high + edge))))
            return min(int(high), max(int(low), round(drawn))) if self.is_integer else drawn
        if self.is_integer:
            return int(rng.integers(int(low), int(high), endpoint=True))
        return rng.uniform(low, high)

    def to_tune(self) -> Any:
        """The domain of Ray Tune. Listed values are text, as some searchers only know plain values."""
        if self.values is not None:
            return tune.choice([self.to_text(value) for value in self.values])
        low, high = self.bounds
        if self.is_integer:  # Ray Tune excludes the highest
            return (tune.lograndint if self.logarithmic else tune.randint)(int(low), int(high) + 1)
        return (tune.loguniform if self.logarithmic else tune.uniform)(low, high)

    def to_text(self, value: Any) -> Any:
        """The form of a value for a searcher."""
        return value if self.values is None else text(value)

    def from_text(self, value: Any) -> Any:
        """The value from a searcher's form of it."""
        return value if self.values is None else yaml.safe_load(value)


def text(value: Any) -> str:
    """A value in one line of YAML, as after `--set KEY=`."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**9).removesuffix("\n...\n").strip()


def assignments(point: Point) -> list[str]:
    """A point as `--set` assignments."""
    return [f"{key}={text(value)}" for key, value in point.items()]


def point_id(point: Point) -> str:
    """A unique name of a point: that of its trial's folder."""
    return sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()[:10]
