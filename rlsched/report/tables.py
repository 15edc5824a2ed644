"""The tables of the HTML report: comparison, hoarding, seeds, limits, repairs. Everything is escaped here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from math import isnan

from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT, Breach
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.measures import measure
from rlsched.evaluate.statistics import PolicyLabel, SeedRow, SummaryRow, order_by, verdict
from rlsched.report.markup import table
from rlsched.report.words import (
    Scale,
    cost_of,
    judgement,
    labelled,
    number,
    scale_for,
    seed_range,
    within,
    written,
)


def comparison_table(rows: Iterable[SummaryRow], metric: str, hoarders: Collection[PolicyLabel]) -> str:
    """A metric of all policies, best first."""
    ordered = order_by(rows, metric)
    meaning = measure(metric)
    scale = scale_for(meaning.unit, [row.high for row in ordered])
    best = next((row.best_heuristic for row in ordered if row.best_heuristic), None)
    against = f"Difference to {escape(best)}" if best else "Difference to the best heuristic"
    unit = f", {scale.suffix.strip()}" if scale.suffix else ""
    text = f"{unit}: {meaning.doc}; {'lower' if meaning.lower_is_better else 'higher'} is better."
    caption = f"<b>{escape(metric.replace('_', ' '))}</b>{escape(text)}"
    cells = [
        (
            _name(row, best, row.label in hoarders),
            escape(row.backfill),
            _interval(scale, row.mean, row.low, row.high),
            _difference(row, scale, best),
            number(100 * row.wins) + ("" if isnan(row.wins) else " %"),
            f"{row.episodes} by {row.seeds} seeds" if row.seeds > 1 else str(row.episodes),
        )
        for row in ordered
    ]
    header = ("Policy", "Backfill", "Mean [95 %]", against, "Wins", "Episodes")
    return table(header, cells, caption)


def _name(row: SummaryRow, best: str | None, hoards: bool) -> str:
    tags = ""
    if row.learned:
        tags += ' <span class="tag learned">learned</span>'
    if not row.learned and str(row.label) == best:
        tags += ' <span class="tag">best heuristic</span>'
    if hoards:
        tags += ' <span class="tag bad">does not count: hoards</span>'
    return escape(row.policy) + tags


def _interval(scale: Scale, mean: float, low: float, high: float, sign: str = "") -> str:
    if isnan(mean):
        return number(mean)
    return f'{sign}{scale(mean)} <span class="range">[{scale(low)}, {scale(high)}]</span>'


def _difference(row: SummaryRow, scale: Scale, best: str | None) -> str:
    """The paired difference, and its verdict in words if its interval excludes zero."""
    if str(row.label) == best and not row.learned:
        return number(float("nan"))
    sign = "+" if row.best_heuristic_difference > 0 else ""
    text = _interval(scale, row.best_heuristic_difference, row.difference_low, row.difference_high, sign)
    judgement = verdict(row)
    return f'{text} <span class="{judgement}">{judgement}</span>' if judgement else text


def hoarding_table(findings: Sequence[Breach]) -> str:
    """Schedule span and wait of learned policies relative to greedy sjf, and the verdict."""
    caption = (
        "A policy can reach a low mean slowdown by keeping long jobs until all others are done. A result"
        f" counts only with a schedule span of at most {SPAN_LIMIT:g} times and a mean wait of at most"
        f" {WAIT_LIMIT:g} times those of greedy sjf on the same sequences, and with no fewer jobs finished."
    )
    cells = [
        (
            escape(finding.policy),
            escape(finding.backfill),
            _against(number(finding.span), number(finding.reference_span), finding.span_ratio),
            _against(written(finding.wait, "s"), written(finding.reference_wait, "s"), finding.wait_ratio),
            _judgement(finding),
        )
        for finding in findings
    ]
    return table(("Policy", "Backfill", "Schedule span", "Mean wait", "Verdict"), cells, caption)


def seeds_table(seeds: Iterable[SeedRow], metrics: Sequence[str]) -> str:
    """Differences of seeds by policy and metric, and interquartile means."""
    cells = []
    chosen = [row for row in seeds if row.metric in metrics]
    for row in sorted(chosen, key=lambda row: (row.policy, metrics.index(row.metric))):
        scale = scale_for(measure(row.metric).unit, [*row.means, row.iqm_high])
        cells.append(
            (
                escape(row.policy),
                escape(labelled(row.metric, scale)),
                str(len(row.seeds)),
                seed_range(row, scale),
                _interval(scale, row.iqm, row.iqm_low, row.iqm_high),
                scale(row.best_heuristic_iqm),
                escape(row.best_heuristic or ""),
            )
        )
    header = ["Policy", "Metric", "Seeds", "Best to worst", "Interquartile mean [95 %]"]
    caption = (
        "Means of the best and the worst seed, and the mean of the middle half of all values of seeds and"
        " episodes [Agarwal et al. 2021], beside that of the heuristic with the best mean."
    )
    return table([*header, "Heuristic's", "Heuristic"], cells, caption)


def limits_table(findings: Sequence[LimitCheck]) -> str:
    """Costs of learned policies, and their limits."""
    cells = [
        (
            escape(check.policy),
            escape(cost_of(check)),
            number(check.limit),
            f'{number(check.mean)} <span class="range">[{number(check.low)}, {number(check.high)}]</span>',
            f'<span class="{"better" if check.met else "worse"}">{within(check)}</span>',
        )
        for check in findings
    ]
    caption = "Means over the episodes [95 % interval], and the limits that policies were trained with."
    return table(("Policy", "Cost", "Limit", "Paid", "Verdict"), cells, caption)


def _against(value: str, reference: str, ratio: float) -> str:
    return f'{value} <span class="range">against {reference}: {number(ratio)} times</span>'


def _judgement(finding: Breach) -> str:
    """The finding as HTML: a coloured verdict, and its reasons."""
    text, colon, reasons = judgement(finding).partition(":")
    look = {None: "", True: "worse", False: "better"}[finding.breached]
    return (f'<span class="{look}">{text}</span>' if look else text) + colon + reasons


def count_table(counts: Mapping[str, int]) -> str:
    """Jobs that were dropped or repaired while loading, or a sentence that there were none."""
    if not any(counts.values()):
        return "<p>No job was dropped or repaired while loading.</p>"
    cells = [(escape(name.replace("_", " ")), f"{count:,}") for name, count in counts.items() if count]
    return table(("Repair", "Jobs"), cells, "Jobs dropped or repaired while loading")
