"""The bar of what goes on for long: a share, a text and the time that it took, on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from rlsched.cli.output import console

BAR_COLUMNS, OTHER_COLUMNS = 30, 15
"""Of the terminal: for the bar itself, and for percentage, time and blanks."""


class _Fitting(TextColumn):
    """A text that gives way where the terminal is narrow: rich would cut the percentage and the time, too."""

    def __init__(self, text: str, columns: int) -> None:
        super().__init__(text, markup=False)
        self._columns = columns

    def render(self, task: Task) -> Text:
        """The text, cut to its columns."""
        text = super().render(task)
        text.truncate(self._columns, overflow="ellipsis")
        return text


class Bar:
    """A bar that is shown from its first `start` on, and gone with its block."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        bar = min(BAR_COLUMNS, self.console.width // 8)
        self.progress = Progress(
            BarColumn(bar),
            TextColumn("{task.percentage:>3.0f}%"),
            _Fitting("{task.fields[text]}", max(10, self.console.width - bar - OTHER_COLUMNS)),
            TimeElapsedColumn(),
            console=self.console,
        )
        self.task = self.progress.add_task("", total=1.0, text="starting")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress.live.is_started:  # rich ends even a bar that never was with an empty line
            self.progress.stop()
