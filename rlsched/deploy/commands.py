"""Commands of `ray` and `rlsched` inside of scripts and manifests: found, and parsed without being run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from ray.scripts.scripts import cli as ray_commands

from rlsched.deploy.findings import Place, Problems, Refusal

PROGRAMS = ("rlsched", "ray")
REST = "@@"
"""What nobody knows before the script runs: any number of arguments."""

BEFORE = {"!", "do", "elif", "else", "env", "exec", "if", "nohup", "srun", "then", "time", "until", "while"}
"""Words that a command may follow, with what these are given."""

_VARIABLE = re.compile(r"\$\(\([^()]*\)\)|\$\{[^}]*\}|\$\([^()]*\)|\$\w+")
_ALL = re.compile(r"\"?(\$@|\$\{[A-Za-z_]+\[@\]\})\"?")
_HERE = re.compile(r"<<-?[ \t]*([\"']?)(\w+)\1[^\n]*\n.*?\n[ \t]*\2(?=\n|$)", re.DOTALL)
_DESCRIPTOR = re.compile(r"(?<=\s)\d(?=[<>])")
_SEPARATORS = set(";&|()\n")


def commands_in(text: str) -> list[list[str]]:
    """Commands of `ray` and `rlsched` in a text of the shell.

    Variables stand for 1, which numbers, names and addresses may be; lists of arguments for `REST`.

    Raises:
        ValueError: a quote is not closed.
    """
    plain = _VARIABLE.sub("1", _ALL.sub(REST, without_comments(text).replace("\\\n", " ")))
    plain = _DESCRIPTOR.sub("", plain)
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    for word in _without_redirections(list(lexer)):
        if set(word) <= _SEPARATORS:
            found.append([])
        else:
            found[-1].append(word)
    commands: list[list[str]] = []
    for words in found:
        for k, word in enumerate(words[:-2]):
            if word in {"bash", "sh"} and words[k + 1] in {"-c", "-lc"}:
                commands += commands_in(words[k + 2])
        if command := _command(words):
            commands.append(command)
    return commands


def without_comments(text: str) -> str:
    """A text of the shell without comments and here-documents, in which a quote need not be closed."""
    text = _HERE.sub("\n", text)
    kept: list[str] = []
    quote, comment = "", False
    for k, char in enumerate(text):
        before = text[k - 1] if k else "\n"
        if comment:
            comment = char != "\n"
        elif quote:
            escaped = before == "\\" and quote == '"'
            quote = "" if char == quote and not escaped else quote
        elif char in "'\"" and before != "\\":
            quote = char
        elif char == "#" and before in " \t\n;&|(":
            comment = True
        if not comment:
            kept.append(char)
    return "".join(kept)


def _without_redirections(words: list[str]) -> list[str]:
    """Words of a text without `> file` and the like."""
    kept: list[str] = []
    skip = False
    for word in words:
        if word and set(word) <= set("<>&|") and set(word) & set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            kept.append(word)
    return kept


def _command(words: list[str]) -> list[str]:
    """The words from `ray` or `rlsched` on; empty: it is another command, or only names one of them."""
    at = 0
    while at < len(words) and (words[at] in BEFORE or re.match(r"^\w+=", words[at])):
        at += 1
    if at < len(words) and words[at].rpartition("/")[2] in PROGRAMS:
        return [words[at].rpartition("/")[2], *words[at + 1 :]]
    if words and words[0] in BEFORE:  # srun has options of its own
        for k, word in enumerate(words):
            if word in PROGRAMS:
                return words[k:]
    return []


def refused(command: Any, name: str, words: Sequence[str]) -> str | None:
    """Why a command of click, or of typer, would refuse its arguments; None: it would not.

    Nothing is run. Whatever is after the name of a command is parsed as it would be.

    Args:
        command: the group at the top.
        name: of the program.
        words: after its name.
    """
    arguments, parent = list(words), None
    if {"-h", "--help"} & set(arguments):
        return None  # which click would print at once
    try:
        while True:
            group = hasattr(command, "resolve_command")
            if group and not arguments:  # click would print its help at once
                return None if command.invoke_without_command else "it names no command"
            context = command.make_context(name, arguments, parent=parent)
            if not group:
                return None
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            if not rest:
                return None if command.invoke_without_command else "it names no command"
            name, command, arguments = command.resolve_command(context, rest)
            parent = context
    except Exception as error:
        if not hasattr(error, "format_message"):  # only what is said of arguments is expected here
            raise
        return " ".join(str(error.format_message()).split()).rstrip(".")


def check_commands(place: Place, text: str, rlsched: Refusal) -> Problems:
    """Hold every command of `ray` and `rlsched` in a text against what these programs take.

    Args:
        place: of the text.
        text: of the shell.
        rlsched: what that would refuse.
    """
    try:
        found = commands_in(text)
    except ValueError as error:
        yield place.wrong(f"{error}".lower(), "close it")
        return
    for program, *given in found:
        if given[:1] == [REST]:
            continue
        words = [word for word in given if word != REST]
        why = rlsched(words) if program == "rlsched" else refused(ray_commands, "ray", words)
        if why is not None:
            known = program if "No such command" in why else " ".join([program, *words[:1]])
            tool = " ".join([program, *words[:1]])
            yield place.wrong(f"{tool!r} would refuse this: {why}", f"see {known} --help")


def check_token(place: Place, text: str) -> Problems:
    """Whether all that talk to Ray know that it asks for a token.

    A head takes one from the home it is started in, unasked; whoever joins it then only does if told so.

    Args:
        place: of what starts Ray.
        text: of that, with what stands in its environment.
    """
    if "RAY_AUTH_MODE" not in text:
        line = "a head with a token in its ~/.ray asks all others for it, who do not know"
        yield place.wrong(line, "set RAY_AUTH_MODE=token, and give all nodes the token")


def option(words: Sequence[str], *names: str) -> str | None:
    """What an option is given among the words of a command; empty: it stands there by itself."""
    for k, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            if equals:
                return value
            follows = words[k + 1] if k + 1 < len(words) else ""
            return "" if follows.startswith("--") else follows
    return None
