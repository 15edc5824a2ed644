"""Progress of long commands in the terminal: a bar on stderr, and lines of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from rlsched.cli.output import console
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.selection import DIFFERENCE, Validation, limited_name
from rlsched.report.words import described, number
from rlsched.scenario import ResolvedScenario

BAR_COLUMNS, OTHER_COLUMNS = 30, 15
"""Columns of the bar, and of percentage, time and blanks."""


class ProgressBar:
    """A bar that appears with `progress.start()` and disappears at the end of its `with` block."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        bar = min(BAR_COLUMNS, self.console.width // 8)
        most = max(10, self.console.width - bar - OTHER_COLUMNS)  # so that percentage and time stay visible
        text = Column(no_wrap=True, overflow="ellipsis", max_width=most)
        self.progress = Progress(
            BarColumn(bar),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[text]}", markup=False, table_column=text),
            TimeElapsedColumn(),
            console=self.console,
        )
        self.task = self.progress.add_task("", total=1.0, text="starting")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress.live.is_started:  # rich prints an empty line even for a bar that never started
            self.progress.stop()


class RichDisplay(ProgressBar):
    """A progress bar with the validation metric, and a line per validation, on stderr.

    Args:
        config: of the run.
    """

    def __init__(self, config: ResolvedConfig) -> None:
        super().__init__()
        self.config = config
        self._later: list[str] = []
        self.limits: Mapping[str, float] = {}

    def prepare(self, scenario: ResolvedScenario, config: ResolvedConfig) -> None:
        """Print what is trained, before Ray and RLlib start."""
        self.config = config
        imitation = config.imitation(scenario)
        after = "" if imitation is None else f" after imitating {imitation.teacher}"
        self.console.print(f"{config.algo}{after} on {described(scenario)}", style="bold")
        for line in self._later:
            self.console.print(line, style="yellow")
        self._later.clear()
        self.progress.reset(self.task, text="starting")  # each of several trainings has its own bar
        self.progress.start()

    def say_after_first_line(self, line: str) -> None:
        """Print a line after the first one, which describes the training."""
        self._later.append(line)

    def begin(self, standing: Standing, validation: Validation) -> None:
        """Print the state of the run when it starts or resumes."""
        self.limits = validation.limits
        heuristic, value = validation.best_heuristic
        best = "the best policy so far" if self.config.plays else "the newest policy"
        so_far = best if standing.iteration else "the policy before training"
        self.console.print(
            f"{len(validation.episodes)} validation episodes; {self.config.validation.metric}: "
            f"best heuristic {heuristic} {value:.4g}"
            + (f", {so_far} {standing.best_metric:.4g}" if standing.best_metric is not None else "")
        )
        if standing.iteration:
            self.console.print(f"resuming from iteration {standing.iteration}, {standing.steps:,} decisions")

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """Show an iteration."""
        share = standing.steps / self.config.steps
        if self.config.minutes is not None:
            share = max(share, standing.seconds / (60 * self.config.minutes))
        metric = self.config.validation.metric
        sampled = row.get(str(metric))
        text = f"{standing.steps:,} decisions, {row['steps_per_second']:,.0f}/s"
        if sampled is not None:
            text += f", {metric} while exploring {sampled:.4g}"
        self.progress.update(self.task, completed=min(1.0, share), text=text)
        validated = row.get(f"validation_{metric}")
        if validated is not None:
            # Offline training always keeps its newest policy.
            best = " (the best so far)" if standing.since_best == 0 and self.config.plays else ""
            hoarding = ""
            if metric == "bounded_slowdown":  # hoarding lowers it
                hoarding = (
                    f", span {row['validation_schedule_span']:.2f}, wait {row['validation_wait']:,.0f} s"
                )
            if row["validation_hoarding"]:
                hoarding += f", hoards ({number(100 * row['validation_hoarding'])} % over the limit)"
            costs = "".join(
                f", {name} {number(row[f'validation_{limited_name(name)}'] or 0.0)} of {number(limit)}"
                for name, limit in self.limits.items()
            )
            mean, low, high = (
                number(row[f"validation_{name}"] or 0.0)
                for name in (DIFFERENCE, f"{DIFFERENCE}_low", f"{DIFFERENCE}_high")
            )
            self.console.print(
                f"{standing.steps:>11,} decisions: validation {metric} {validated:.4g}, "
                f"{mean} [{low}, {high}] to the best heuristic{costs}{hoarding}{best}"
            )

    def stopping(self) -> None:
        """Print that the run stops after this iteration."""
        self.console.print("stopping after this iteration, which can be resumed; Ctrl-C again stops now")
