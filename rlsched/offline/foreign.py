"""Episodes that other programs recorded, in columns as near to ours as possible, and their missing columns.

Sources give what they have, by our names; `completed` works out the rest, or says that it cannot be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray
from rlsched.offline.columns import MASKS, Shape

Columns = dict[str, NDArray[Any]]

NEEDED = ("obs", "actions", "rewards")
ENDS = ("terminateds", "truncateds")
OBSERVED = ("new_obs", "action_mask", "new_action_mask")
OPTIONAL = ("eps_id", "t", "costs", "elapsed", "action_logp", "behavior")
KNOWN = (*NEEDED, *ENDS, *OBSERVED, *OPTIONAL)
"""Columns that are taken over, by our names; `t` must rise by 1, and is counted anew."""

COSTS = "costs/"
"""Prefix of the columns of single cost terms, where each term has a column of its own."""

LISTS = ("obs", *OBSERVED, "costs")
OURS = (*LISTS, *ENDS, "t", "actions", "rewards", "elapsed", "action_logp")
"""Numeric columns of a dataset."""

GREATEST = 2**31 - 1
"""Largest value of an integer column."""


@dataclass(frozen=True)
class Foreign:
    """An episode that another program recorded.

    Attributes:
        where: its file, or its dataset and its number there.
        rows: (rows,) numbers of its rows there.
        behavior: policy that decided, if the source names it.
        columns: by our names; those that there are, `obs`, `actions` and `rewards` at least, and one of
            `terminateds` and `truncateds`; cost terms together in `costs`, or each in `costs/NAME`.
    """

    where: str
    rows: IntArray
    behavior: str | None
    columns: Columns

    def fault(self, row: int | None, problem: str, remedy: str) -> BadInputError:
        """Error about the episode, or about one of its rows."""
        at = self.where if row is None else f"{self.where}, row {self.rows[row]}"
        return BadInputError(at, problem, remedy)


def completed(episode: Foreign, shape: Shape) -> Columns | None:
    """All numeric columns of our datasets, as far as they can be known.

    Observations may be the vector alone, or the one of `flat=True` environments, which holds the mask and the
    ticks so far, too. Where the source has no next observations, they are those of the next row. The last row
    of a truncated episode is left out then.

    Returns:
        Columns; None if nothing of it can be used.

    Raises:
        BadInputError: something is missing that only its author can know.
    """
    columns = _checked(episode)
    _split(episode, columns, shape)
    if "action_mask" not in columns:
        raise episode.fault(
            None,
            "has no column 'action_mask'",
            "record what was legal (info['action_mask']), or observations of an environment with flat=True",
        )
    count = len(columns["obs"])
    for name in ENDS:
        columns.setdefault(name, np.zeros(count, np.bool_))
    if not (columns["terminateds"][-1] or columns["truncateds"][-1]):
        columns["truncateds"] = _with_last(columns["truncateds"], value=True)  # the source names no end
    columns = _with_next(columns)
    count = len(columns["obs"])
    if count == 0:
        return None
    if "elapsed" not in columns:
        problem = "has no column 'elapsed'"
        remedy = "record the ticks of each transition (info['elapsed']), or observations with flat=True"
        raise episode.fault(None, problem, remedy)
    columns.setdefault("action_logp", np.zeros(count, np.float32))
    columns["costs"] = _costs(episode, columns, shape, count)
    for name in ("obs", "new_obs"):
        _check_width(episode, name, columns[name], shape.size)
    for name in MASKS:
        _check_width(episode, name, columns[name], shape.actions)
        odd = ((columns[name] != 0) & (columns[name] != 1)).any(axis=1)
        if odd.any():
            raise episode.fault(int(odd.argmax()), f"{name} holds more than 0 and 1", "write 1 where legal")
    columns["t"] = np.arange(count)
    types = {"action_logp": np.float32, "rewards": np.float64, "actions": np.int64, "elapsed": np.int64}
    types |= dict.fromkeys(("obs", "new_obs", "costs"), np.float32) | dict.fromkeys(MASKS, np.int8)
    return {name: np.asarray(columns[name]).astype(types.get(name, columns[name].dtype)) for name in OURS}


def _checked(episode: Foreign) -> Columns:
    """Columns as they are, of as many rows each, with what must be single and whole numbers so."""
    columns = dict(episode.columns)
    count = len(episode.rows)
    for name, values in columns.items():
        if len(values) != count:
            raise episode.fault(None, f"{name} has {len(values)} rows, not {count}", "record it anew")
        if name not in LISTS and np.ndim(values) != 1:
            raise episode.fault(None, f"{name} holds lists", "write a number for each decision")
    for name in ("actions", "elapsed"):
        if name not in columns:
            continue
        odd = ~(np.abs(columns[name]) <= GREATEST) | (columns[name] != np.floor(columns[name]))
        if odd.any():
            at = int(odd.argmax())
            raise episode.fault(at, f"{name} {columns[name][at]:g} is no whole number", "write whole numbers")
    for name in ENDS:
        if name in columns:
            odd = (columns[name] != 0) & (columns[name] != 1)
            if odd.any():
                raise episode.fault(int(odd.argmax()), f"{name} is neither 0 nor 1", "write 1 at an end")
            columns[name] = columns[name].astype(np.bool_)
    if "t" in columns:
        broken = np.append(False, columns["t"][1:] != columns["t"][:-1] + 1)
        if broken.any():
            at = int(broken.argmax())
            words = f"t {columns['t'][at]:g} follows {columns['t'][at - 1]:g}"
            raise episode.fault(at, words, "write the decisions of an episode in their order, all of them")
    return columns


def _costs(episode: Foreign, columns: Columns, shape: Shape, count: int) -> NDArray[np.float32]:
    """(rows, terms) in the order of the scenario."""
    if not shape.costs:
        return np.zeros((count, 0), np.float32)
    named = [COSTS + name for name in shape.costs]
    if all(name in columns for name in named):
        return np.stack([columns[name] for name in named], axis=1)
    if "costs" not in columns:
        problem = "has no column 'costs'"
        remedy = f"record {', '.join(shape.costs)}, or name a --scenario without objective.costs"
        raise episode.fault(None, problem, remedy)
    _check_width(episode, "costs", columns["costs"], len(shape.costs))
    costs: NDArray[np.float32] = columns["costs"]
    return costs


def _split(episode: Foreign, columns: Columns, shape: Shape) -> None:
    """Take observations of a flat environment apart."""
    flat = shape.size + shape.actions + 1
    width = columns["obs"].shape[1]
    if width not in (shape.size, flat):
        problem = f"obs holds {width} numbers, and the scenario shows {shape.size}, or {flat} with flat=True"
        remedy = "name the scenario that it was recorded with, its observation and decision"
        raise episode.fault(None, problem, remedy)
    if width == shape.size:
        return
    clocks = {}
    for name, mask in (("obs", "action_mask"), ("new_obs", "new_action_mask")):
        if name in columns:
            _check_width(episode, name, columns[name], flat)
            clocks[name] = columns[name][:, -1].astype(np.float64)
            columns.setdefault(mask, columns[name][:, shape.size : -1])
            columns[name] = columns[name][:, : shape.size]
    if "elapsed" not in columns:
        after = clocks.get("new_obs", np.append(clocks["obs"][1:], clocks["obs"][-1:]))
        columns["elapsed"] = (after - clocks["obs"]).round()


def _check_width(episode: Foreign, name: str, values: NDArray[Any], wanted: int) -> None:
    if values.ndim != 2 or values.shape[1] != wanted:
        width = values.shape[1] if values.ndim == 2 else 1
        raise episode.fault(None, f"{name} holds {width} numbers, not {wanted}", "record it anew")


def _with_next(columns: Columns) -> Columns:
    """Add the next observation and mask to every row; the last row goes if they are not known."""
    whole = "new_obs" in columns and "new_action_mask" in columns
    extended = dict(columns)
    for name, new in (("obs", "new_obs"), ("action_mask", "new_action_mask")):
        # After an end nothing counts any more: the last one stays.
        extended.setdefault(new, np.concatenate([columns[name][1:], columns[name][-1:]]))
    if whole or columns["terminateds"][-1]:
        return extended
    extended = {name: values[:-1] for name, values in extended.items()}
    extended["truncateds"] = _with_last(extended["truncateds"], value=True)
    return extended


def _with_last(values: NDArray[Any], *, value: bool) -> NDArray[Any]:
    changed = np.array(values)
    changed[-1:] = value
    return changed
