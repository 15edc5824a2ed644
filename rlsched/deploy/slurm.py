"""Batch scripts of Slurm: options of sbatch, the shell, and how Ray is started on the nodes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from difflib import get_close_matches

from rlsched.deploy.commands import check_commands, check_token, commands_in, option
from rlsched.deploy.findings import Found, Place, Problems, Refusal, missing

OPTIONS = frozenset(
    (
        *("account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint"),
        *("clusters", "comment", "constraint", "container", "container-id", "contiguous", "core-spec"),
        *("cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot"),
        *("dependency", "distribution", "error", "exclude", "exclusive", "export", "export-file"),
        *("extra", "extra-node-info", "get-user-env", "gid", "gpu-bind", "gpu-freq", "gpus"),
        *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "hold"),
        *("ignore-pbs", "input", "job-name", "kill-on-invalid-dep", "licenses", "mail-type", "mail-user"),
        *("mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice"),
        *("no-kill", "no-requeue", "nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core"),
        *("ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "overcommit"),
        *("oversubscribe", "parsable", "partition", "power", "prefer", "priority", "profile", "propagate"),
        *("qos", "quiet", "reboot", "requeue", "reservation", "resv-ports", "segment", "signal"),
        *("sockets-per-node", "spread-job", "stepmgr", "switches", "test-only", "thread-spec"),
        *(
            "threads-per-core",
            "time",
            "time-min",
            "tmp",
            "tres-bind",
            "tres-per-task",
            "uid",
            "use-min-nodes",
        ),
        *("verbose", "wait", "wait-all-nodes", "wckey", "wrap"),
    )
)
"""Of sbatch in Slurm 24.05."""

SHORT = {
    **{"A": "account", "a": "array", "b": "begin", "B": "extra-node-info", "C": "constraint"},
    **{"c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus"},
    **{"H": "hold", "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters"},
    **{"m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output"},
    **{"p": "partition", "q": "qos", "s": "oversubscribe", "S": "core-spec", "t": "time", "w": "nodelist"},
    **{"x": "exclude", "W": "wait"},
}
REQUIRED = ("nodes", "ntasks-per-node", "time")
_FORMS = {
    "time": re.compile(r"^(\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2})$"),
    "nodes": re.compile(r"^\d+(-\d+)?$"),
    "ntasks-per-node": re.compile(r"^\d+$"),
    "cpus-per-task": re.compile(r"^\d+$"),
    "mem": re.compile(r"^\d+[KMGT]?$"),
    "mem-per-cpu": re.compile(r"^\d+[KMGT]?$"),
    "open-mode": re.compile(r"^(append|truncate)$"),
}
_EXAMPLES = {
    **{"time": "08:00:00", "nodes": "4", "ntasks-per-node": "1", "cpus-per-task": "16", "mem": "64G"},
    **{"mem-per-cpu": "2G", "open-mode": "append"},
}


def is_slurm(text: str) -> bool:
    """Whether a text is a batch script of Slurm."""
    return text.startswith("#!") and "\n#SBATCH" in text


def describe(text: str) -> Found:
    """What a batch script asks for."""
    given = {name: value for _, name, value in _options(text)}
    held = f"{given.get('nodes')} nodes for {given.get('time')}"
    missing = shutil.which("shellcheck") is None
    return Found("Slurm", held, ("shellcheck, which is not installed",) if missing else ())


def check_slurm(text: str, place: Place, rlsched: Refusal) -> Problems:
    """What is wrong with a batch script."""
    yield from _check_options(text, place)
    found = list(_check_shell(text, place))
    yield from found
    if found:
        return
    found = list(check_commands(place, text, rlsched))
    yield from found or _check_ray(text, place)


def _options(text: str) -> list[tuple[int, str, str]]:
    """Line, name and value of every option that sbatch reads, and of those after the first command.

    A quote that is not closed ends with its line.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#SBATCH"):
            continue
        given = line.removeprefix("#SBATCH")
        words = shlex.split(given, comments=True) if given.count('"') % 2 == 0 else given.split()
        for k, word in enumerate(words):
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
            elif re.match(r"^-[A-Za-z]", word):
                name, equals, value = SHORT.get(word[1], word[1]), word[2:], word[2:]
            else:
                continue
            if not equals and k + 1 < len(words) and not words[k + 1].startswith("-"):
                value = words[k + 1]
            found.append((number, name, value))
    return found


def _check_options(text: str, place: Place) -> Problems:
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")), None)
    given: dict[str, str] = {}
    for number, name, value in _options(text):
        here = place / f"line {number}"
        if first is not None and number > first:
            problem = f"#SBATCH --{name} stands after the first command (line {first}), where sbatch is deaf"
            yield here.wrong(problem, "move it up")
        elif name not in OPTIONS:
            close = get_close_matches(name, OPTIONS, n=1)
            meant = f"did you mean --{close[0]}?" if close else "see sbatch --help"
            yield here.wrong(f"unknown option --{name}", meant)
        elif name in _FORMS and not _FORMS[name].match(value):
            yield here.wrong(f"--{name} {value!r}", f"write it as {_EXAMPLES[name]}")
        elif name in given and given[name] != value:
            yield here.wrong(f"--{name} stands twice", "keep one")
        given[name] = value
    for name in missing(REQUIRED, given, OPTIONS):
        yield place.wrong(f"#SBATCH --{name} is missing", f"add --{name}={_EXAMPLES[name]}")
    if given.get("ntasks-per-node", "1") != "1":
        line = f"#SBATCH --ntasks-per-node {given['ntasks-per-node']!r}: one Ray a node uses all of its cores"
        yield place.wrong(line, "use 1")
    if "cpus-per-task" not in given and "exclusive" not in given:
        line = "neither --cpus-per-task nor --exclusive is given, so Ray would get one core"
        yield place.wrong(line, "add #SBATCH --cpus-per-task=16")
    if "signal" in given and not given["signal"].startswith("B:") and re.search(r"^\s*trap ", text, re.M):
        line = f"#SBATCH --signal {given['signal']!r} goes to steps, not to the script and its trap"
        yield place.wrong(line, f"write B:{given['signal']}")


def _check_shell(text: str, place: Place) -> Problems:
    """What bash, and shellcheck where it is installed, say."""
    english = os.environ | {"LC_ALL": "C"}
    parsed = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False, env=english
    )
    for line in parsed.stderr.splitlines()[:1]:
        where, _, problem = line.removeprefix("bash: ").partition(": ")
        yield (place / where).wrong(problem, "mend the shell")
    if parsed.returncode or shutil.which("shellcheck") is None:
        return
    said = subprocess.run(
        ["shellcheck", "--shell=bash", "--severity=style", "--format=json", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    for one in json.loads(said.stdout):
        rule = f"SC{one['code']}"
        yield (place / f"line {one['line']}").wrong(f"{one['message']} ({rule})", "mend the shell")


def _check_ray(text: str, place: Place) -> Problems:
    started = [words for words in commands_in(text) if words[:2] == ["ray", "start"]]
    heads = [words for words in started if "--head" in words]
    joins = [words for words in started if option(words, "--address") is not None]
    if len(heads) != 1:
        yield place.wrong(
            f"starts {len(heads)} heads of Ray", "write one `ray start --head` on the first node"
        )
    if not joins:
        yield place.wrong("no node joins the head", "write `srun ... ray start --address=...`")
    for words in started:
        if "--block" not in words:
            line = "`ray start` without --block ends its step, and Slurm what it has started"
            yield place.wrong(line, "add --block")
    if heads:
        yield from check_token(place, text)
    for words in commands_in(text):
        if words[:2] == ["ray", "stop"]:
            line = "`ray stop` ends the Ray of other jobs on these nodes, too"
            yield place.wrong(line, "end the steps that were started")
