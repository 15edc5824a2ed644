"""Checks of a dataset's rows: numbers, masks, actions, and that each row continues the one before it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.offline.columns import Shape, coded, values_of

NUMBERS = ("obs", "new_obs", "rewards", "costs", "action_logp")
"""Columns in which every number must be finite."""


class BrokenError(Exception):
    """A row, or a whole shard (None), that cannot be."""

    def __init__(self, row: int | None, problem: str) -> None:
        self.row, self.problem = row, problem
        super().__init__(problem)


@dataclass
class _Open:
    """The last row of an episode that is not over."""

    t: int
    behavior: str
    new_obs: NDArray[np.float32]
    new_mask: NDArray[np.int8]


@dataclass
class Rows:
    """Checks rows in order, each by itself and against the one before it.

    Attributes:
        known: names of behavior policies.
        known_episodes: of the whole dataset, as far as it has been read.
        count: rows so far; lengths, rewards and behaviors are of the episodes so far.
    """

    shape: Shape
    known: set[str]
    known_episodes: set[str]
    count: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    behaviors: dict[str, str] = field(default_factory=dict)
    unfinished: dict[str, _Open] = field(default_factory=dict)

    def check(self, table: pa.Table) -> None:
        """Look at a row group.

        Raises:
            BrokenError: there is something wrong with it.
        """
        if len(table) == 0:  # some writers end with such a group
            return
        for name in table.column_names:
            column = table.column(name)
            if column.null_count:
                self._first(column.is_null().to_numpy(), f"{name} is missing")
        self._check_numbers(table)
        self._check_masks(table)
        self._check_episodes(table)
        self.count += len(table)

    def finish(self) -> None:
        """Every episode must have ended."""
        for eps_id, last in self.unfinished.items():
            raise BrokenError(None, f"episode {eps_id!r} does not end: its last row is t {last.t}")

    def _first(self, wrong: NDArray[np.bool_], problem: str) -> None:
        """Complain of the first row that is wrong, if there is one."""
        if wrong.any():
            raise BrokenError(self.count + int(wrong.argmax()), problem)

    def _check_numbers(self, table: pa.Table) -> None:
        for name in NUMBERS:
            if name == "costs":
                lengths = table.column(name).combine_chunks().value_lengths().to_numpy()
                wanted = len(self.shape.costs)
                self._first(lengths != wanted, f"costs has another length than {wanted}")
            finite = np.isfinite(values_of(table, name)).reshape(len(table), -1)
            self._first(~finite.all(axis=1), f"{name} is not finite")
        self._first(values_of(table, "action_logp") > 0, "action_logp is above 0")
        self._first(values_of(table, "elapsed") < 0, "elapsed is below 0")

    def _check_masks(self, table: pa.Table) -> None:
        for name in ("action_mask", "new_action_mask"):
            mask = values_of(table, name)
            self._first(((mask != 0) & (mask != 1)).any(axis=1), f"{name} holds more than 0 and 1")
            self._first(mask.max(axis=1) == 0, f"{name} allows nothing")
        actions = values_of(table, "actions")
        outside = (actions < 0) | (actions >= self.shape.actions)
        if outside.any():
            self._first(outside, f"action {actions[outside.argmax()]} of {self.shape.actions}")
        illegal = values_of(table, "action_mask")[np.arange(len(actions)), actions] == 0
        if illegal.any():
            self._first(illegal, f"action {actions[illegal.argmax()]} is outside its mask")

    def _check_episodes(self, table: pa.Table) -> None:
        """Check that each row continues the one before it in its episode."""
        names, code = coded(table, "eps_id")
        behaviors, which_behavior = coded(table, "behavior")
        for number, behavior in enumerate(behaviors):
            if behavior not in self.known:
                self._first(which_behavior == number, f"behavior {behavior!r} is not in dataset.json")
        t, rewards = values_of(table, "t"), values_of(table, "rewards")
        over = values_of(table, "terminateds") | values_of(table, "truncateds")
        obs, new_obs = values_of(table, "obs"), values_of(table, "new_obs")
        mask, new_mask = values_of(table, "action_mask"), values_of(table, "new_action_mask")
        same = code[1:] == code[:-1]
        for wrong, problem in (
            (over[:-1], "its episode has ended in the row before"),
            (which_behavior[1:] != which_behavior[:-1], "behavior is another than in the row before"),
            (t[1:] != t[:-1] + 1, "t does not continue from the row before"),
            ((obs[1:] != new_obs[:-1]).any(axis=1), "obs is not new_obs of the row before"),
            ((mask[1:] != new_mask[:-1]).any(axis=1), "action_mask is not new_action_mask of the row before"),
        ):
            self._first(np.append(False, same & wrong), problem)
        begins = np.flatnonzero(np.concatenate([[True], ~same]))
        ends = np.concatenate([begins[1:], [len(code)]]) - 1
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            name = names[code[begin]]
            behavior = behaviors[which_behavior[begin]]
            self._check_piece(name, begin, int(t[begin]), behavior, obs[begin], mask[begin])
            self.lengths[name] = self.lengths.get(name, 0) + end - begin + 1
            self.rewards[name] = self.rewards.get(name, 0.0) + float(rewards[begin : end + 1].sum())
            self.behaviors[name] = behavior
            if over[end]:
                self.unfinished.pop(name, None)
            else:
                self.unfinished[name] = _Open(
                    int(t[end]), behavior, new_obs[end].copy(), new_mask[end].copy()
                )

    def _check_piece(
        self,
        name: str,
        row: int,
        t: int,
        behavior: str,
        obs: NDArray[np.float32],
        mask: NDArray[np.int8],
    ) -> None:
        """The first row of a piece of an episode."""
        before = self.unfinished.get(name)
        at = self.count + row
        if before is None:
            if name in self.known_episodes:
                raise BrokenError(at, f"episode {name!r} was there before, and had ended")
            self.known_episodes.add(name)
            if t != 0:
                raise BrokenError(at, f"episode {name!r} begins with t {t}, not 0")
        elif t != before.t + 1:
            raise BrokenError(at, f"t {t} of episode {name!r} follows {before.t}")
        elif (obs != before.new_obs).any() or (mask != before.new_mask).any():
            raise BrokenError(at, f"what is seen is not what followed t {before.t} of episode {name!r}")
        elif behavior != before.behavior:
            raise BrokenError(at, f"behavior {behavior!r} in an episode of {before.behavior!r}")
