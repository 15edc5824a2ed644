"""Datasets and off-policy estimates as tables, texts and JSON values."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from rlsched.evaluate.bootstrap import Interval
    from rlsched.offline.estimate import Estimate, Judgement
    from rlsched.offline.manifest import Manifest

UNLIKE_SHARE, FEW_EPISODES = 0.05, 10.0
"""Thresholds of warnings: more actions outside of the data, or fewer effective episodes, than this."""


def behaviors_table(dataset: Manifest) -> Table:
    """Length, return and metrics of each behaviour policy of a dataset."""
    from rlsched.cli.tables import plain_table
    from rlsched.offline.card import metric_names

    names = metric_names(dataset)
    table = plain_table(["behavior", "episodes", "decisions", "return", *names])
    for behavior in dataset.behaviors:
        means = [f"{behavior.metrics[name].mean:.4g}" if name in behavior.metrics else "" for name in names]
        table.add_row(
            behavior.behavior,
            f"{behavior.episodes:,}",
            f"{behavior.rows:,}",
            f"{behavior.reward.mean:.5g}",
            *means,
        )
    return table


def megabytes(dataset: Manifest) -> float:
    """Size of all shards."""
    return sum(shard.bytes for shard in dataset.shards) / 1e6


def judgement_json(judgement: Judgement) -> dict[str, Any]:
    """Estimates as JSON values; null where there is no estimate."""

    def finite(value: Interval) -> dict[str, float | None]:
        return {name: part if isfinite(part) else None for name, part in value._asdict().items()}

    return {
        "gamma": judgement.gamma,
        "recorded": finite(judgement.recorded),
        "policies": {
            name: {
                "fqe": finite(estimate.fqe),
                "over": finite(estimate.over),
                "wis": finite(estimate.wis),
                "effective_episodes": estimate.effective,
                "agreement": estimate.agreement,
                "unlike": estimate.unlike,
                "warnings": warnings(estimate, chances=judgement.chances),
            }
            for name, estimate in judgement.policies.items()
        },
    }


def warnings(estimate: Estimate, *, chances: bool) -> list[str]:
    """Reasons why a dataset is a weak base for an estimate.

    Args:
        estimate: of a policy.
        chances: the dataset has the probabilities of its actions.
    """
    lines = []
    if estimate.unlike > UNLIKE_SHARE:
        lines.append(f"{estimate.unlike:.0%} of its actions are unlike the data: there, fqe extrapolates")
    if not chances:
        lines.append("the dataset has no probabilities of its actions: no estimate by wis")
    elif not isfinite(estimate.wis.mean):
        lines.append("no recorded episode agrees with the policy to its end: no estimate by wis")
    elif estimate.effective < FEW_EPISODES:
        lines.append(f"wis has an effective sample of only {estimate.effective:.1f} episodes")
    return lines


def judgement_table(judgement: Judgement) -> Table:
    """Estimates of policies, best first by fqe, and the recorded return."""
    from rlsched.cli.tables import plain_table

    columns = ["policy", "fqe", "over recorded", "wis", "episodes", "agrees with", "unlike"]
    title = f"return of an episode, discounted by {judgement.gamma:g} per tick"
    table = plain_table(columns, right=("episodes", "unlike"), title=title)
    ranked = sorted(judgement.policies.items(), key=lambda item: -item[1].fqe.mean)
    for name, estimate in ranked:
        agreement = ", ".join(f"{behavior} {share:.1%}" for behavior, share in estimate.agreement.items())
        table.add_row(
            name,
            _interval(estimate.fqe),
            _interval(estimate.over),
            _interval(estimate.wis),
            f"{estimate.effective:,.1f}",
            agreement,
            f"{estimate.unlike:.1%}",
        )
    table.add_row("(recorded)", _interval(judgement.recorded), "", "", "", "", "")
    return table


def _interval(value: Interval) -> str:
    if not isfinite(value.mean):
        return "-"
    return f"{value.mean:,.4g} [{value.low:,.4g}, {value.high:,.4g}]"
