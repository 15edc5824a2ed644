"""Progress bar of long commands on stderr: share, text and elapsed time."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from rlsched.cli.output import console

BAR_COLUMNS, OTHER_COLUMNS = 30, 15
"""Columns of the bar, and of percentage, time and blanks."""


class _TruncatedText(TextColumn):
    """A text that is truncated in narrow terminals, so that percentage and time stay visible."""

    def __init__(self, text: str, columns: int) -> None:
        super().__init__(text, markup=False)
        self._columns = columns

    def render(self, task: Task) -> Text:
        """The text, truncated to its columns."""
        text = super().render(task)
        text.truncate(self._columns, overflow="ellipsis")
        return text


class ProgressBar:
    """A bar that appears with `progress.start()` and disappears at the end of its `with` block."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        bar = min(BAR_COLUMNS, self.console.width // 8)
        self.progress = Progress(
            BarColumn(bar),
            TextColumn("{task.percentage:>3.0f}%"),
            _TruncatedText("{task.fields[text]}", max(10, self.console.width - bar - OTHER_COLUMNS)),
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
