"""Batch scripts of Slurm: options of sbatch, the shell, and how Ray is started on the nodes."""

from __future__ import annotations

import json
import re

from rlsched.deploy.commands import Refusal, check_commands
from rlsched.deploy.findings import Place, run_tool
from rlsched.deploy.schema import check_schema, load_schema
from rlsched.deploy.texts import check_ray_start, check_texts

_COMMAND = re.compile(r"(?m)^[ \t]*[^#\s]")
_LINE = re.compile(r"(?m)^#SBATCH\b(.*?)(?: #.*)?$")
_OPTION = re.compile(r"\s-(?:-([\w-]+)|(\w))(?:[= ]?\"?([^-\s\"][^\s\"]*))?")


def check_slurm(text: str, place: Place, refusal: Refusal) -> None:
    """Check a batch script."""
    place.report.kind = "Slurm"
    schema = load_schema("sbatch.yaml")
    first = _COMMAND.search(text)
    header = text if first is None else text[: first.start()]
    if late := _LINE.search(text, len(header)):
        late_place = place / f"line {text.count(chr(10), 0, late.start()) + 1}"
        late_place.error("sbatch ignores #SBATCH after the first command", "move it up")
    options = {
        name or schema["short"].get(letter, letter): value
        for line in _LINE.findall(header)
        for name, letter, value in _OPTION.findall(line)
    }
    check_schema(place / "#SBATCH", options, schema)
    place.report.summary.append(f"{options.get('nodes')} nodes for {options.get('time')}")
    check_texts(text, place)
    if _check_shell(place, text):
        check_ray_start(place, check_commands(place, text, refusal), [text], block=True)


def _check_shell(place: Place, text: str) -> bool:
    """Report what bash and shellcheck find; return whether the script can be parsed."""
    parsed = run_tool(place, ["bash", "-n"], text)
    if parsed is not None and parsed.returncode:
        place.error(parsed.stderr.partition("\n")[0], "correct the script")
        return False
    command = ["shellcheck", "--shell=bash", "--severity=style", "--format=json", "-"]
    checked = run_tool(place, command, text)
    for comment in json.loads(checked.stdout or "[]") if checked is not None else ():
        (place / f"line {comment['line']}").error(f"{comment['message']} (SC{comment['code']})", "correct it")
    return True
