"""Comparisons as tables for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isnan

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT, Breach
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.measures import measure
from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import PolicyLabel, SeedRow, SummaryRow, by_cell, headline, order_by, verdict
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
from rlsched.workloads.swf import REPAIRS

WIDE = 125
"""Columns from which on every mean is shown with its interval."""

NARROW_METRICS = 3

LONG_WORD = 24
"""Characters from which on a word may be folded, as a path is."""

INTERVAL_WIDTH = len("[3,447, 8,483]")

GOOD, BAD, FAINT = "green", "bold red", "dim"


class FittingTable(Table):
    """A table that prints its rows as records if its columns do not fit.

    rich would omit columns, or make them one character wide.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its rows as records."""
        widths = _widths(self.columns, options.max_width)
        if widths is None:
            yield from self._records()
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _records(self) -> Iterator[RenderableType]:
        """The first cell of each row, and below it its other cells with their headers, unless empty."""
        if self.title:
            yield Text(str(self.title), style=self.title_style or "")
        first, *rest = self.columns
        indented = [f"  {column.header}" for column in rest]
        for k, head in enumerate(first.cells):
            if k or self.title:
                yield Text()
            label = Text(f"{first.header} ", style=FAINT)
            yield label.append_text(head if isinstance(head, Text) else Text(str(head)))
            grid = Table.grid(padding=(0, 2, 0, 0))
            grid.add_column(min_width=max(map(len, indented), default=0))
            grid.add_column(overflow="fold")
            for name, column in zip(indented, rest, strict=True):
                cell = list(column.cells)[k]
                if _plain(cell):
                    grid.add_row(name, cell, style=self.rows[k].style)
            yield grid
        if self.caption:
            yield Text(str(self.caption), style="table.caption")


def _widths(columns: Sequence[Column], space: int) -> list[int] | None:
    """Width of each column in characters, the widest folded first; None: they do not fit.

    Numbers, which are right-aligned, are not folded; other words from `LONG_WORD` characters on.
    """
    widths, least = [], []
    for column in columns:
        cells = [_plain(cell) for cell in (column.header, *column.cells)]
        words = [len(word) for cell in cells for word in cell.split()]
        longest = max(words, default=1)
        folded = longest if column.justify == "right" else min(longest, LONG_WORD)
        least.append(max(column.min_width or 1, folded))
        lines = [len(line) for cell in cells for line in cell.splitlines()]
        widths.append(max(least[-1], *lines, 1))
    space -= 2 * len(columns) - 1  # a blank after each, and one between them in place of a line
    while sum(widths) > space:
        wide = [k for k, width in enumerate(widths) if width > least[k]]
        if not wide:
            return None
        widths[max(wide, key=lambda k: widths[k])] -= 1
    return widths


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def plain_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[RenderableType | None]] = (),
    *,
    right: Collection[str] = (),
    title: str | None = None,
) -> Table:
    """A table without boxes, with a rule below the header; `right` names right-aligned columns."""
    from rich import box

    table = FittingTable(
        title=title,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            min_width=max(map(len, column.split())),
        )
    for row in rows:
        table.add_row(*row)
    return table


def show_result(console: Console, result: Result) -> None:
    """Print a comparison: all policies, learned policies against heuristics, hoarding, limits."""
    hoarders = {PolicyLabel(breach.policy, breach.backfill) for breach in result.hoarding if breach.breached}
    tables = [comparison(result.summary, hoarders, result.seeds, wide=console.width >= WIDE)]
    first = headline(result.summary)
    learned = [row for row in result.summary if row.learned and row.metric in first]
    if any(row.best_heuristic for row in learned):
        tables.append(against_heuristics(learned, result.summary))
    if result.seeds:
        tables.append(interquartile_means(result.seeds, result.summary))
    if result.hoarding:
        tables.append(hoarding(result.hoarding))
    if result.limits:
        tables.append(limits(result.limits))
    for table in tables:
        console.print()
        console.print(table)
    console.print()


def comparison(
    rows: Sequence[SummaryRow],
    hoarders: Collection[PolicyLabel],
    seeds: Sequence[SeedRow] = (),
    *,
    wide: bool,
) -> Table:
    """All policies by the first metric, best first; a narrow table shows fewer metrics.

    Below a policy with several seeds are the means of its best and worst seed.
    """
    every = headline(rows)
    metrics = every if wide else every[:NARROW_METRICS]
    scales = {name: _scale(rows, name) for name in metrics}
    heads = [labelled(name, scales[name]) for name in metrics]
    best = next((row.best_heuristic for row in rows if row.metric == metrics[0]), None)
    several = sum(row.metric == metrics[0] for row in rows) > 1
    extra = [f"against {best}", *(["wins"] if wide else [])] if best and several else []
    columns = ["policy", "backfill", heads[0], *extra, *heads[1:]]
    table = plain_table(columns, right={*heads, *extra})
    for column in table.columns[2 : 3 + bool(extra)]:
        column.min_width = INTERVAL_WIDTH
    cells = by_cell(rows)
    differ = {(PolicyLabel(row.policy, row.backfill), row.metric): row for row in seeds}
    for row in order_by(rows, metrics[0]):
        label = row.label
        means = [
            _range(scales[cell.metric], cell.mean, cell.low, cell.high)
            if wide or cell.metric == metrics[0]
            else Text(scales[cell.metric](cell.mean))
            for cell in (cells[label, name] for name in metrics)
        ]
        compared = [difference(row, scales[metrics[0]]), wins(row)][: len(extra)]
        table.add_row(_name(row, label in hoarders), row.backfill, means[0], *compared, *means[1:])
        if (label, metrics[0]) in differ:
            ranges = [
                seed_range(differ[label, name], scales[name], named=name == metrics[0]) for name in metrics
            ]
            blank = [""] * len(extra)
            table.add_row(f"  {row.seeds} seeds", "", ranges[0], *blank, *ranges[1:], style=FAINT)
    table.caption = "; ".join(_notes(rows, metrics, len(every) - len(metrics)))
    return table


def _notes(rows: Sequence[SummaryRow], metrics: Sequence[str], omitted: int) -> list[str]:
    """Notes below a table, which has no column for some metrics."""
    notes = [f"{name.replace('_', ' ')}: {measure(name).doc}" for name in metrics if name == "schedule_span"]
    if max(row.episodes for row in rows) > 1:
        notes.insert(0, "[95 % interval of the mean], differences paired by episode")
    if max(row.seeds for row in rows) > 1:
        notes.insert(1, "for several seeds over these, too; below: best to worst seed")
    if omitted:
        plural = "s" if omitted > 1 else ""
        notes.append(f"{omitted} more metric{plural} in terminals of {WIDE} columns")
    return notes


def _scale(rows: Iterable[SummaryRow], metric: str) -> Scale:
    return scale_for(measure(metric).unit, [row.high for row in rows if row.metric == metric])


def _name(row: SummaryRow, hoards: bool) -> Text:
    text = Text(row.policy, style="bold" if row.learned else "")
    return text.append(" hoards", style=BAD) if hoards else text


def difference(row: SummaryRow, scale: Scale) -> Text:
    """The paired difference to the best heuristic, coloured if its interval excludes zero."""
    if str(row.label) == row.best_heuristic:
        return Text("best", style=FAINT)
    text = _range(scale, row.best_heuristic_difference, row.difference_low, row.difference_high, signed=True)
    if row.learned and row.episodes > 1 and (judgement_text := verdict(row)):
        text.append(f" {judgement_text}", style=GOOD if judgement_text == "better" else BAD)
    return text


def wins(row: SummaryRow) -> Text:
    """The share of episodes in which a policy is at least as good as the best heuristic."""
    if str(row.label) == row.best_heuristic or isnan(row.wins):
        return Text("")
    return Text(f"{100 * row.wins:.0f} %")


def _range(scale: Scale, mean: float, low: float, high: float, signed: bool = False) -> Text:
    sign = "+" if signed and mean > 0 else ""
    text = Text(f"{sign}{scale(mean)}")
    if not isnan(mean) and low < high:
        text.append(f" [{scale(low)}, {scale(high)}]", style=FAINT)
    return text


def against_heuristics(learned: Sequence[SummaryRow], rows: Sequence[SummaryRow]) -> Table:
    """Each learned policy compared with the best heuristic of each metric."""
    cells = {(str(label), metric): row for (label, metric), row in by_cell(rows).items()}
    metrics = headline(rows)
    lines, previous = [], None
    for row in sorted(learned, key=lambda row: (row.policy, metrics.index(row.metric))):
        scale = _scale(rows, row.metric)
        rival = cells[row.best_heuristic or "", row.metric]
        name = row.policy if row.policy != previous else ""
        means = (_range(scale, row.mean, row.low, row.high), row.best_heuristic or "", scale(rival.mean))
        lines.append((name, labelled(row.metric, scale), *means, difference(row, scale), wins(row)))
        previous = row.policy
    return plain_table(
        ["policy", "metric", "mean", "best heuristic", "its mean", "difference", "wins"],
        lines,
        right={"mean", "its mean", "wins"},
        title="Learned policies against the best heuristic",
    )


def interquartile_means(seeds: Sequence[SeedRow], rows: Sequence[SummaryRow]) -> Table:
    """Interquartile means of the first metric, which are robust to outlier seeds."""
    columns = ["policy", "seeds", "metric", "interquartile mean", "best heuristic", "its interquartile mean"]
    metric = headline(rows)[0]
    scale = _scale(rows, metric)
    lines = [
        (
            *(row.policy, str(len(row.seeds)), labelled(metric, scale)),
            _range(scale, row.iqm, row.iqm_low, row.iqm_high),
            *(row.best_heuristic or "", scale(row.best_heuristic_iqm)),
        )
        for row in seeds
        if row.metric == metric
    ]
    title = "Interquartile means over seeds and episodes"
    return plain_table(columns, lines, right={columns[1], columns[5]}, title=title)


def hoarding(findings: Sequence[Breach]) -> Table:
    """Whether the results of learned policies count."""
    styles = {None: "", True: BAD, False: GOOD}
    lines = [
        (
            breach.policy,
            f"{number(breach.span)}, {number(breach.span_ratio)} times sjf's",
            f"{written(breach.wait, 's')}, {number(breach.wait_ratio)} times sjf's",
            Text(judgement(breach), style=styles[breach.breached]),
        )
        for breach in findings
    ]
    columns = ["policy", "schedule span", "mean wait", "verdict"]
    table = plain_table(columns, lines, title="Do the results count?")
    table.caption = (
        f"A result counts with a span of at most {SPAN_LIMIT:g} times and a mean wait of at most "
        f"{WAIT_LIMIT:g} times those of greedy sjf: long jobs must not be postponed."
    )
    return table


def limits(findings: Sequence[LimitCheck]) -> Table:
    """Costs of learned policies, and their limits."""
    columns = ["policy", "cost", "limit", "paid", "verdict"]
    lines = [
        (
            *(check.policy, cost_of(check), number(check.limit)),
            f"{number(check.mean)} [{number(check.low)}, {number(check.high)}]",
            Text(within(check), style=GOOD if check.met else BAD),
        )
        for check in findings
    ]
    return plain_table(columns, lines, right=columns[2:4], title="Are limits kept?")


def show_repairs(console: Console, repairs: Mapping[str, int]) -> None:
    """Print jobs that were dropped or repaired while loading."""
    for name, count in repairs.items():
        meaning = REPAIRS.get(name, "")
        note = f" ({meaning})" if meaning else ""
        console.print(f"  {count:,} × {name.replace('_', ' ')}{note}", style="yellow")  # noqa: RUF001
