"""What a searched setting may be: listed values, or a range."""

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
"""Setting -> its value in one trial."""

Range = Annotated[tuple[float, float], Field(description="lowest and highest")]
MOST = 2**53
"""Integers up to which every one is a floating-point number, too."""

KINDS = ("values", "uniform", "log_uniform", "integers", "log_integers")


class Domain(Frozen):
    """What one setting may be; exactly one of these is given."""

    values: tuple[Any, ...] | None = Field(None, min_length=1, description="each of them")
    uniform: Range | None = Field(None, description="between these two")
    log_uniform: Range | None = Field(None, description="likewise, every order of magnitude as often")
    integers: tuple[int, int] | None = Field(None, description="between these two, both included")
    log_integers: tuple[int, int] | None = Field(None, description="likewise, as log_uniform")

    @model_validator(mode="before")
    @classmethod
    def _no_bare_values(cls, given: object) -> object:
        if isinstance(given, list | tuple):
            raise SettingError(
                "", f"value {list(given)} does not say how", f"write {{values: {list(given)}}}"
            )
        if not isinstance(given, dict | Domain):
            raise SettingError("", f"value {given} is one value", f"write {{values: [{given}]}}, or set it")
        return given

    @model_validator(mode="after")
    def _one_kind(self) -> Domain:
        given = [name for name in KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise SettingError(
                "",
                f"says {' and '.join(given) or 'nothing'}",
                f"give exactly one of {', '.join(KINDS)}",
            )
        if self.values is not None:
            said = [text(value) for value in self.values]
            if twice := next((one for one in said if said.count(one) > 1), None):
                raise SettingError("values", f"name {twice} twice", "name each once")
        else:
            low, high = self.bounds
            if self.whole and max(abs(low), abs(high)) > MOST:
                raise SettingError(given[0], f"value [{low:g}, {high:g}] is too far", f"stay within {MOST:,}")
            if not low < high:
                raise SettingError(given[0], f"value [{low:g}, {high:g}] is empty", "give [lowest, highest]")
            if self.logarithmic and low <= 0:
                raise SettingError(given[0], f"value {low:g} has no logarithm", "begin above 0")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest, of a range."""
        found = self.uniform or self.log_uniform or self.integers or self.log_integers
        assert found is not None
        return found

    @property
    def logarithmic(self) -> bool:
        """Whether orders of magnitude count, and not differences."""
        return self.log_uniform is not None or self.log_integers is not None

    @property
    def numeric(self) -> bool:
        """Whether all of it are numbers."""
        listed = self.values or ()
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed)

    @property
    def size(self) -> int | None:
        """So many it may be; None: of a range of numbers without end."""
        if self.values is not None:
            return len(self.values)
        return int(self.bounds[1] - self.bounds[0]) + 1 if self.whole else None

    @property
    def whole(self) -> bool:
        """Whether it holds integers only."""
        return self.integers is not None or self.log_integers is not None

    def ends(self) -> tuple[Any, ...]:
        """What is to be allowed for all of it to be: every value, or both ends of a range."""
        return self.bounds if self.values is None else self.values

    def draw(self, rng: np.random.Generator) -> Any:
        """One of them at random."""
        if self.values is not None:
            return self.values[rng.integers(len(self.values))]
        low, high = self.bounds
        if self.logarithmic:
            edge = 0.5 if self.whole else 0.0  # both ends are as likely as others
            drawn = float(np.exp(rng.uniform(np.log(low - edge), np.log(high + edge))))
            return min(int(high), max(int(low), round(drawn))) if self.whole else drawn
        return int(rng.integers(int(low), int(high), endpoint=True)) if self.whole else rng.uniform(low, high)

    def of_tune(self) -> Any:
        """The same for a searcher of Ray Tune; what is listed as text, for some know but plain values."""
        if self.values is not None:
            return tune.choice([self.to_text(value) for value in self.values])
        low, high = self.bounds
        if self.whole:  # their highest is not included
            return (tune.lograndint if self.logarithmic else tune.randint)(int(low), int(high) + 1)
        return (tune.loguniform if self.logarithmic else tune.uniform)(low, high)

    def to_text(self, value: Any) -> Any:
        """A value as a searcher knows it."""
        return value if self.values is None else text(value)

    def of_text(self, told: Any) -> Any:
        """The value that a searcher chose."""
        return told if self.values is None else yaml.safe_load(told)


def text(value: Any) -> str:
    """A value in one line of YAML, as after `--set KEY=`."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**9).removesuffix("\n...\n").strip()


def assignments(point: Point) -> list[str]:
    """A point as `--set` assignments."""
    return [f"{key}={text(value)}" for key, value in point.items()]


def name_of(point: Point) -> str:
    """A name that a point has, and no other: of the folder of its trial."""
    return sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()[:10]
