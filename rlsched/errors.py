"""The two ways a command ends badly: the input was bad, or something failed while running."""

from __future__ import annotations

LONGEST_PART = 600
"""Characters of a part of a message; a value may have millions."""


class BadInputError(ValueError):
    """Input of a user that cannot be used; exit code 2.

    The message is one line: what (file, key or option), where (row, field), the value, and the remedy.

    Args:
        where: the file, key or option that is wrong, with row or path where there is one.
        problem: what is wrong with it, with the value.
        remedy: what to do instead.
    """

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        line = f"{_shortened(where)}: {_shortened(problem)}; {remedy}"
        super().__init__(visible(" ".join(line.split())))

    def __reduce__(self) -> tuple[type[BadInputError], tuple[str, str, str]]:
        """Pickle by the three parts: the message alone cannot rebuild the error in another process."""
        return (type(self), (self.where, self.problem, self.remedy))


def visible(text: str) -> str:
    """A text whose control characters are escaped, but for ends of lines and tabs.

    The content of a file could otherwise move the cursor, set colours or rename the window of a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _shortened(text: str) -> str:
    """A text without its middle where it is longer than `LONGEST_PART`."""
    if len(text) <= LONGEST_PART:
        return text
    half = LONGEST_PART // 2
    return f"{text[:half]} ... {text[-half:]}"
