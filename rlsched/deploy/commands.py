"""Commands of `ray` and `rlsched` in shell text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from rlsched.deploy.findings import Place

PREFIXES = {"!", "do", "elif", "else", "env", "exec", "if", "nohup", "then", "time", "until", "while"}
LAUNCHERS = {"srun", "timeout", "wait_for"}  # with words of their own before the command

Refusal = Callable[[Sequence[str]], str | None]
"""Words of a command -> the reason why `ray` or `rlsched` refuses them; None: it does not."""

_IGNORED = re.compile(r"(?m)(?:^|(?<=\s))(?:#.*$|\d(?=[<>]))")
_ARGUMENTS = re.compile(r"\"?\$(?:@|\{\w+\[@\]\})\"?")
_VARIABLE = re.compile(r"\$\(\([^()]{0,99}\)\)|\$\{[^}]{0,99}\}|\$\([^()]{0,99}\)|\$\w+")


def commands_in(text: str) -> list[list[str]]:
    """The commands of `ray` and `rlsched` in shell text, as words. A variable is read as 1.

    Commands with an array of arguments (`"$@"`) are left out.

    Raises:
        ValueError: a quote is not closed.
    """
    plain = _VARIABLE.sub("1", _ARGUMENTS.sub("@@", _IGNORED.sub("", text.replace("\\\n", " "))))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    commands: list[list[str]] = []
    words: list[str] = []
    for word in [*lexer, "\n"]:
        if word.strip(";&|()<>\n") or not word:
            words.append(word)
        else:
            commands += _command(words)
            words = []
    return commands


def _command(words: list[str]) -> list[list[str]]:
    while words and (words[0] in PREFIXES or re.match(r"\w+=", words[0])):
        words = words[1:]
    if words and words[0] in LAUNCHERS:
        words = words[next((k for k, word in enumerate(words) if word in {"ray", "rlsched"}), 0) :]
    program = words[0].rpartition("/")[2] if words else ""
    if program in {"bash", "sh"} and len(words) > 2 and words[1] in {"-c", "-lc"}:
        return commands_in(words[2])
    known = program in {"ray", "rlsched"} and len(words) > 1 and "@@" not in words
    return [[program, *words[1:]]] if known else []


def check_commands(place: Place, text: str, refusal: Refusal) -> list[list[str]]:
    """Report commands of `ray` and `rlsched` that these refuse, and return all commands."""
    try:
        commands = commands_in(text)
    except ValueError as error:
        place.error(str(error), "close it")
        return []
    for words in commands:
        if (reason := refusal(words)) is not None:
            place.error(f"'{' '.join(words[:2])}' refuses its arguments: {reason}", f"see {words[0]} --help")
    return commands


def option(words: Sequence[str], name: str) -> str | None:
    """The value of an option among the words of a command; None: not given."""
    for k, word in enumerate(words):
        if word.partition("=")[0] == name:
            return word.partition("=")[2] or "".join(words[k + 1 : k + 2])
    return None
