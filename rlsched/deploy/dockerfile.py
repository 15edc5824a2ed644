"""Dockerfiles: instructions, what they copy, and that an image holds what the rest of the cluster does."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from rlsched.deploy.commands import check_commands
from rlsched.deploy.findings import PYTHON, RAY, Found, Place, Problems, Refusal, count, one_of

FLAGS = {
    **{"ADD": {"chmod", "chown", "checksum", "exclude", "keep-git-dir", "link", "unpack"}, "ARG": set()},
    **{"CMD": set(), "COPY": {"chmod", "chown", "exclude", "from", "link", "parents"}, "ENTRYPOINT": set()},
    **{"ENV": set(), "EXPOSE": set(), "FROM": {"platform"}, "LABEL": set(), "MAINTAINER": set()},
    **{"HEALTHCHECK": {"interval", "retries", "start-interval", "start-period", "timeout"}},
    **{"ONBUILD": set(), "RUN": {"device", "mount", "network", "security"}, "SHELL": set()},
    **{"STOPSIGNAL": set(), "USER": set(), "VOLUME": set(), "WORKDIR": set()},
}
"""Instructions, with their flags."""

_VARIABLE = re.compile(r"\$\{?(\w+)")
_RAY_PIN = re.compile(r"\bray(?:\[[^\]]*\])?==([0-9][\w.]*)")
_PYTHON_TAG = re.compile(r"(?:^|/)python:([0-9]+\.[0-9]+)")
_RAY_TAG = re.compile(r"rayproject/ray(?:-ml)?:([0-9]+\.[0-9]+\.[0-9]+)(?:-py([0-9])([0-9]+))?")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Args:
        line: at which it begins, counted from 1.
        name: in upper case.
        flags: by name.
        text: what follows, in one line.
    """

    line: int
    name: str
    flags: dict[str, str] = field(default_factory=dict)
    text: str = ""


def is_dockerfile(path: Path, text: str) -> bool:
    """Whether a text is a Dockerfile: by its name, or since it begins with FROM, or ARG before it."""
    if "dockerfile" in path.name.lower() or "containerfile" in path.name.lower():
        return True
    names = [found.name for found in parse(text)]
    return bool(names) and names[0] in {"ARG", "FROM"} and "FROM" in names


def describe(text: str) -> Found:
    """What an image is made from."""
    found = parse(text)
    bases = [one.text for one in found if one.name == "FROM"]
    return Found("Dockerfile", f"from {', '.join(bases)}: {count(len(found), 'instruction')}")


def parse(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, comments left out and lines joined."""
    found: list[Instruction] = []
    joined, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if not joined:
            if not line.strip():
                continue
            begun = number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        name, _, rest = joined.partition(" ")
        flags: dict[str, str] = {}
        while matched := re.match(r"--([a-z-]+)(?:=(\S*))?\s+", rest.lstrip()):
            flags[matched[1]] = matched[2] or ""
            rest = rest.lstrip()[matched.end() :]
        found.append(Instruction(begun, name.upper(), flags, rest.strip()))
        joined = ""
    if joined:
        found.append(Instruction(begun, "\\", {}, joined))
    return found


def check_dockerfile(text: str, place: Place, rlsched: Refusal) -> Problems:
    """What is wrong with a Dockerfile, whose context is taken to be the current folder."""
    found = parse(text)
    names = [one.name for one in found]
    if "FROM" not in names:
        if all(name in FLAGS for name in names):
            yield place.wrong("has no FROM", "say what it is made from")
        based = True  # one that is misspelt has a line of its own
    else:
        based = False
    known: set[str] = set()
    stages: set[str] = set()
    for one in found:
        here = place / f"line {one.line}"
        if one.name == "\\":
            yield here.wrong("ends in the middle of an instruction", "take the last \\ away")
            continue
        if one.name not in FLAGS:
            yield here.wrong(f"unknown instruction {one.name!r}", one_of(one.name, FLAGS))
            continue
        if not based and one.name not in {"ARG", "FROM"}:
            yield here.wrong(f"{one.name} stands before FROM", "move it down")
        for flag in one.flags:
            if flag not in FLAGS[one.name]:
                allowed = FLAGS[one.name]
                remedy = one_of(flag, allowed) if allowed else "leave it out"
                yield here.wrong(f"{one.name} has no flag --{flag}", remedy)
        if one.name == "ARG":
            known.add(one.text.partition("=")[0])
        elif one.name == "FROM":
            based = True
            yield from _check_base(one, here, known, stages)
            words = one.text.split()
            if len(words) == 3:
                stages.add(words[2])
        elif one.name in {"ADD", "COPY"}:
            yield from _check_copy(one, here, stages)
        yield from _check_commands(one, here, rlsched)
    yield from _check_order(found, place)


def _check_base(one: Instruction, place: Place, known: set[str], stages: set[str]) -> Problems:
    for name in _VARIABLE.findall(one.text):
        if name not in known:
            yield place.wrong(f"{one.text!r}: {name} is no ARG yet", f"write ARG {name}=... above")
    image = one.text.split()[0] if one.text else ""
    if image in stages or "$" in image or image == "scratch":
        return
    tag = image.rpartition("/")[2].partition(":")[2]
    if "@" not in image and tag in {"", "latest"}:
        yield place.wrong(f"{image!r} is another image every day", "name a version")
    for python in _PYTHON_TAG.findall(image):
        if python != PYTHON:
            yield place.wrong(f"{image!r} has Python {python}", f"use {PYTHON}, as all other nodes")
    for ray, major, minor in _RAY_TAG.findall(image):
        if ray != RAY:
            yield place.wrong(f"{image!r} has ray {ray}", f"use {RAY}, as here")
        if major and f"{major}.{minor}" != PYTHON:
            yield place.wrong(f"{image!r} has Python {major}.{minor}", f"use {PYTHON}, as all other nodes")


def _check_copy(one: Instruction, place: Place, stages: set[str]) -> Problems:
    if "from" in one.flags:
        stage = one.flags["from"]
        if stage not in stages and not stage.isdigit() and "/" not in stage and ":" not in stage:
            known = one_of(stage, stages) if stages else "write FROM ... AS above"
            yield place.wrong(f"no stage {stage!r}", known)
        return
    try:
        words = json.loads(one.text) if one.text.startswith("[") else one.text.split()
    except ValueError:
        words = []
    if len(words) < 2:
        yield place.wrong(f"{one.name} {one.text!r}", "write what is copied, and where to")
    for source in words[:-1]:
        if "://" not in source and "$" not in source and not any(Path().glob(source.strip("/") or "*")):
            yield place.wrong(f"{source!r}: no such file or folder here", "build from the repository's root")


def _check_commands(one: Instruction, place: Place, rlsched: Refusal) -> Problems:
    text = one.text
    if one.name in {"CMD", "ENTRYPOINT"} and text.startswith("["):
        try:
            words = json.loads(text)
        except ValueError:
            yield place.wrong(f"{text} is no JSON", 'write ["program", "argument"]')
            return
        text = " ".join(json.dumps(word) for word in words)
    if one.name in {"CMD", "ENTRYPOINT", "RUN"}:
        yield from check_commands(place, text, rlsched)


def _check_order(found: list[Instruction], place: Place) -> Problems:
    """Whether torch comes first, so that none is pulled with the rest, and versions are the pinned ones."""
    runs = [one for one in found if one.name == "RUN"]
    torch = [k for k, one in enumerate(runs) if re.search(r"pip3? install.*[\s\"']torch[=\s\"']", one.text)]
    rest = [k for k, one in enumerate(runs) if re.search(r"pip3? install.*(-c|--constraint)[ =]", one.text)]
    for one in runs:
        for pin in _RAY_PIN.findall(one.text):
            if pin != RAY:
                yield (place / f"line {one.line}").wrong(f"installs ray {pin}", f"use {RAY}, as here")
    if rest and (not torch or torch[0] > rest[0]):
        here = place / f"line {runs[rest[0]].line}"
        yield here.wrong(
            "torch is not installed yet, so the largest build of it comes along", "install it above"
        )
