"""Compose files and Dockerfiles."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

from rlsched.deploy.commands import Refusal, check_commands
from rlsched.deploy.findings import Place, run_tool
from rlsched.deploy.schema import check_schema, load_schema
from rlsched.deploy.texts import check_image, check_ray_start, check_texts

DOCKERFILE = re.compile(r"(?:[ \t]*(?:#.*|ARG .*)?\n)*FROM \S")
_FROM = re.compile(r"(?mi)^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?")
_COPY = re.compile(r"(?mi)^[ \t]*(?:ADD|COPY)[ \t](?!.*--from)(.*)$")


def check_compose(document: dict[str, Any], place: Place, refusal: Refusal) -> None:
    """Check a compose file by its schema, `docker compose config`, and how Ray is started."""
    place.report.kind = "compose"
    if not check_schema(place, document, load_schema("compose.json.gz")):
        return
    check_texts(document["services"], place / "services")
    commands, ray_services = [], []
    for name, service in document["services"].items():
        for key in ("entrypoint", "command"):
            text = service.get(key) or ""
            text = shlex.join(text) if isinstance(text, list) else text
            commands += check_commands(place / "services" / name / key, text, refusal)
            ray_services += [str(service)] if "ray start" in text else []
    if ray_services:
        check_ray_start(place / "services", commands, ray_services, block=True)
    place.report.summary.append(f"services: {', '.join(document['services'])}")
    if not place.report.problems:
        _check_by_docker(place)


def _check_by_docker(place: Place) -> None:
    command = ["docker", "compose", "-f", place.file, "config", "--quiet", "--no-interpolate"]
    plugin = run_tool(place, ["docker", "compose", "version"])
    if plugin is not None and plugin.returncode:
        place.report.unchecked.append("docker compose is not installed: skipped")
    elif plugin is not None and (checked := run_tool(place, command)) is not None and checked.returncode:
        problem = checked.stderr.strip().rpartition("\n")[2]
        place.error(f"docker compose refuses it: {problem}", "correct the file")


def check_dockerfile(text: str, place: Place) -> None:
    """Check images and copied files of a Dockerfile whose build context is the current folder."""
    place.report.kind = "Dockerfile"
    place.report.unchecked.append("instructions: `docker build --check` checks them")
    check_texts(text, place)
    stages = _FROM.findall(text)
    if not stages:
        place.error("has no FROM", "name the image it is made from")
    for image, _ in stages:
        if image not in {"scratch", *(name for _, name in stages)}:
            check_image(place / "FROM", image)
    for words in _COPY.findall(text):
        for source in words.split()[:-1]:
            if source[0] not in "-[" and not set("$*?:") & set(source) and not os.path.exists(f"./{source}"):
                problem = f"{source!r}: no such file or folder here"
                (place / "COPY").error(problem, "build from the repository's root")
    place.report.summary.append(f"from {', '.join(image for image, _ in stages)}")
