"""The card of a dataset: what people read before they use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlsched.offline import columns

if TYPE_CHECKING:
    from rlsched.offline.manifest import Manifest, Played

CARD = "README.md"

WITH_HORIZON = ("job_value_ratio", "completion_ratio", "utilization")
WITHOUT = ("bounded_slowdown", "wait", "utilization")
"""Metrics that the card shows."""


def card(dataset: Manifest) -> str:
    """The card in Markdown."""
    names = metric_names(dataset)
    head = ["behavior", "episodes", "decisions", "return", *names]
    rows = [
        [
            f"`{behavior.behavior}`",
            f"{behavior.episodes:,}",
            f"{behavior.rows:,}",
            f"{behavior.reward.mean:.6g} ± {behavior.reward.std:.3g}",
            *_means(behavior, names),
        ]
        for behavior in dataset.behaviors
    ]
    (words, _, listed) = (columns.__doc__ or "").partition("\n\n")
    listed, _, end = listed.partition("\n\n")
    size = sum(shard.bytes for shard in dataset.shards)
    packages = ", ".join(f"{name} {number}" for name, number in dataset.versions.items())
    costs = ", ".join(dataset.shape.costs) or "none"
    behaviors = ", ".join(behavior.behavior for behavior in dataset.behaviors)
    return f"""# Decisions of {behaviors} on {dataset.scenario.name}

{dataset.rows:,} decisions in {dataset.episodes:,} whole episodes, {dataset.origin}:
{len(dataset.shards)} shards, {size / 1e6:,.1f} MB. The scenario, what was asked for, and checksums of shards
are in `dataset.json`. Episodes that rlsched records are drawn from those for training; evaluation never sees
them.

{_table(head, rows)}

Returns are sums of rewards, mean and standard deviation over episodes, not discounted.

## Columns

{words}

{listed}

{end}
An observation has {dataset.shape.size} numbers, a mask {dataset.shape.actions}; cost terms: {costs}.

## Use

```sh
rlsched dataset check FOLDER
rlsched dataset info FOLDER
```

or `pyarrow.dataset.dataset("FOLDER/part-00000.parquet")` and whatever else reads Parquet.

Written with {packages}.
"""


def metric_names(dataset: Manifest) -> tuple[str, ...]:
    """The metrics that matter most in its scenario."""
    return WITHOUT if not dataset.scenario.decision.tick_driven else WITH_HORIZON


def _means(behavior: Played, names: tuple[str, ...]) -> list[str]:
    return [f"{behavior.metrics[name].mean:.4g}" if name in behavior.metrics else "" for name in names]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
