"""What policies of several methods, and of several runs of each, came to beside orders: tables and a picture.

Values are in per cent, differences of means of all runs, paired by episode, with 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlsched.evaluate.bootstrap import Interval, bootstrap_columns
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.files import write_whole
from rlsched.report.style import HEURISTIC, INK, LEARNED, house_style, new_figure, quiet_axes, to_png


@dataclass(frozen=True)
class Outcome:
    """What all policies of a case came to.

    Attributes:
        case: which.
        values: policy -> (runs, episodes) share of the value in per cent; an order has one run.
        agreement: method -> share of the recorded decisions that it takes, too, on average of its runs; the
            cheapest method comes first.
        recorders: the orders that recorded.
    """

    case: str
    values: Mapping[str, NDArray[np.float64]]
    agreement: Mapping[str, float]
    recorders: Sequence[str]

    def mean(self, name: str) -> float:
        """Per cent of the value."""
        return float(self.values[name].mean())

    def ahead(self, names: Sequence[str], second: str) -> list[Interval]:
        """How far each is ahead of another, runs averaged, paired by episode."""
        return bootstrap_columns([self.values[name].mean(0) - self.values[second].mean(0) for name in names])

    @property
    def methods(self) -> list[str]:
        """Who learned."""
        return list(self.agreement)

    @property
    def best_order(self) -> str:
        """Of those that nobody has learned."""
        return max((name for name in self.values if name not in self.agreement), key=self.mean)

    @property
    def best_recorder(self) -> str:
        """Of those who recorded."""
        return max(self.recorders, key=self.mean)

    @property
    def best_method(self) -> str:
        """Of those that learned."""
        return max(self.methods, key=self.mean)


def values_of(
    results: Iterable[EpisodeResult], metric: str, kinds: Mapping[str, str]
) -> dict[str, NDArray[np.float64]]:
    """Policy -> (runs, episodes) of a metric, in per cent.

    Args:
        results: of all policies.
        metric: a share.
        kinds: run -> method; whoever is not among them goes by its own name.
    """
    actual: dict[str, dict[str, dict[int, float]]] = {}
    for result in results:
        runs = actual.setdefault(kinds.get(result.policy, result.policy), {})
        runs.setdefault(result.policy, {})[result.episode] = 100 * result.metrics[metric]
    return {
        name: np.array([[episodes[number] for number in sorted(episodes)] for episodes in runs.values()])
        for name, runs in actual.items()
    }


def in_words(over: Interval) -> str:
    """A difference with its interval."""
    return f"{over.mean:+.2f} [{over.low:+.2f}, {over.high:+.2f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def outcome_table(outcome: Outcome) -> str:
    """Markdown: what each method came to, and how far it is ahead of others."""
    methods, rest = outcome.methods, ("bc", "crr", outcome.best_order)
    columns = [
        [" " if name == second else in_words(item) for name, item in zip(methods, over, strict=True)]
        for second in rest
        for over in [outcome.ahead(methods, second)]
    ]
    rows = []
    for name, *over in zip(methods, *columns, strict=True):
        runs = " ".join(f"{run.mean():.1f}" for run in outcome.values[name])
        rows.append([name, f"{outcome.mean(name):.1f} ({runs})", *over, f"{outcome.agreement[name]:.1%}"])
    orders = [name for name in outcome.values if name not in methods]
    message = ", ".join(f"{name} {outcome.mean(name):.1f}" for name in sorted(orders, key=outcome.mean)[::-1])
    head = [outcome.case, "value (%), and of each run", *(f"to {name}" for name in rest), "alike"]
    return f"{table(head, rows)}\n\nOrders: {message}."


def quality(outcomes: Sequence[Outcome]) -> str:
    """Markdown: agreement with what was recorded, and how far methods are ahead of bc, data by data."""
    methods = list(dict.fromkeys(name for outcome in outcomes for name in outcome.methods))
    later = [name for name in methods if name != "bc"]
    shares, ahead = [], []
    for outcome in outcomes:
        took = {name: f"{share:.1%}" for name, share in outcome.agreement.items()}
        shares.append([outcome.case, *(took.get(name, " ") for name in methods)])
        recorder = outcome.best_recorder
        over = dict(zip(outcome.methods, map(in_words, outcome.ahead(outcome.methods, "bc")), strict=True))
        bc = f"{outcome.mean('bc'):.1f}, {in_words(outcome.ahead(['bc'], recorder)[0])}"
        cells = [f"{recorder} {outcome.mean(recorder):.1f}", bc, *(over.get(name, " ") for name in later)]
        ahead.append([outcome.case, *cells])
    head = ["ahead of bc", "best recorder", "bc, ahead of it", *later]
    return f"{table(['recorded decisions taken', *methods], shares)}\n\n{table(head, ahead)}"


def advice(outcomes: Sequence[Outcome]) -> str:
    """Markdown: what cannot be told from the best and asks for the least, and how far it is ahead."""
    rows = []
    for outcome in outcomes:
        behind = outcome.ahead(outcome.methods, outcome.best_method)
        advised = next(name for name, item in zip(outcome.methods, behind, strict=True) if item.high >= 0)
        order = outcome.best_order
        ahead = [in_words(outcome.ahead([advised], second)[0]) for second in (order, "bc")]
        values = [f"{order} {outcome.mean(order):.1f}", advised, f"{outcome.mean(advised):.1f}"]
        rows.append([outcome.case, *values, *ahead])
    head = ["recorded", "best order", "advised", "value (%)", "ahead of the order", "ahead of bc"]
    return table(head, rows)


def draw_quality(target: Path, named: Mapping[str, Outcome], methods: Sequence[str]) -> Path:
    """What each method made of what was recorded: the value, and how far ahead of the best order it is.

    Args:
        target: PNG.
        named: name of the data -> outcome.
        methods: to be drawn, not more than there are colours.
    """
    outcomes = list(named.values())
    at = np.arange(len(outcomes))
    with house_style():
        figure = new_figure(9.0, 3.6)
        values, ahead = figure.subplots(1, 2)
        for label, colour, orders in (
            ("best order", INK, [o.best_order for o in outcomes]),
            ("best of those who recorded", HEURISTIC, [o.best_recorder for o in outcomes]),
        ):
            shares = [o.mean(name) for o, name in zip(outcomes, orders, strict=True)]
            values.plot(at, shares, "_", color=colour, markersize=22, label=label)
        ahead.axhline(0, color=INK, linewidth=1)
        for j, (name, colour) in enumerate(zip(methods, LEARNED, strict=False)):
            x = at + 0.12 * (j - (len(methods) - 1) / 2)
            values.plot(x, [o.mean(name) for o in outcomes], "o", color=colour, markersize=4, label=name)
            if name == "bc":  # far below: it would hide what lies between the others
                continue
            mean, low, high = np.array([o.ahead([name], o.best_order)[0] for o in outcomes]).T
            ahead.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, markersize=4)
        for axes, label in (
            (values, "share of the submitted value (%)"),
            (ahead, "ahead of the best order (points)"),
        ):
            axes.set_xticks(at, list(named), rotation=30, ha="right")
            axes.set_ylabel(label)
            quiet_axes(axes, "y")
        figure.legend(*values.get_legend_handles_labels(), loc="outside right upper")
        write_whole(target, to_png(figure))
    return target
