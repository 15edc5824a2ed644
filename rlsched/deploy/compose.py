"""Compose files: the specification's schema, and what services need of each other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rlsched.deploy.commands import check_commands, check_token
from rlsched.deploy.documents import at
from rlsched.deploy.findings import Found, Place, Problems, Refusal, count, one_of
from rlsched.deploy.schema import fits, kept

LATER = {
    "": ("include", "models", "name"),
    "service": (
        *("annotations", "attach", "cgroup", "develop", "gpus", "label_file", "models", "oom_kill_disable"),
        *("post_start", "pre_stop", "provider", "storage_opt", "use_api_socket", "uts"),
    ),
}
"""Keys that came after the schema that is kept here: known, not looked into."""

CONDITIONS = ("service_completed_successfully", "service_healthy", "service_started")


def is_compose(document: Any) -> bool:
    """Whether a YAML document is a compose file."""
    return isinstance(document, dict) and "services" in document and "kind" not in document


def describe(document: dict[str, Any]) -> Found:
    """The services of a compose file."""
    names = list(document["services"])
    return Found("compose", f"{count(len(names), 'service')}: {', '.join(names)}")


def check_compose(document: dict[str, Any], place: Place, rlsched: Refusal) -> Problems:
    """What is wrong with a compose file."""
    found = list(fits(place, document, _schema(), draft7=True))
    yield from found
    if found:
        return  # what follows would trip over it
    services = document["services"]
    volumes = document.get("volumes") or {}
    for name, service in services.items():
        here = place / "services" / name
        if not {"image", "build", "extends"} & service.keys():
            yield here.wrong("has no image and is not built", "add image or build")
        yield from _check_needs(service, services, here)
        yield from _check_volumes(service, volumes, here)
        yield from _check_command(service, here, rlsched)
        image = service.get("image", "")
        tag = image.rpartition("/")[2].partition(":")[2]
        if image and "@" not in image and "$" not in image and tag in {"", "latest"}:
            yield (here / "image").wrong(f"{image!r} is another image every day", "name a version")
        for k, port in enumerate(service.get("ports", ())):
            if not isinstance(port, dict) and not re.match(
                r"^([\d.]+:|\[[^\]]+\]:)?(\d+(-\d+)?:)?\d+(-\d+)?(/(tcp|udp))?$", str(port)
            ):
                yield (here / "ports" / k).wrong(f"value {port!r}", 'write it as "8000:8000"')


def _schema() -> dict[str, Any]:
    schema = deepcopy(kept("compose.json.gz"))
    schema["properties"] |= {key: {} for key in LATER[""]}
    schema["definitions"]["service"]["properties"] |= {key: {} for key in LATER["service"]}
    return schema


def _check_needs(service: Mapping[str, Any], services: Mapping[str, Any], place: Place) -> Problems:
    needs = service.get("depends_on", [])
    for other in needs:
        here = place / "depends_on" / other
        if other not in services:
            yield here.wrong(f"no service {other!r}", one_of(other, services))
            continue
        condition = at(needs, other, "condition") or "service_started"
        if condition == "service_healthy" and "healthcheck" not in services[other]:
            yield here.wrong(f"{other!r} has no healthcheck, so it is never healthy", "give it one")


def _check_volumes(service: Mapping[str, Any], volumes: Mapping[str, Any], place: Place) -> Problems:
    for k, volume in enumerate(service.get("volumes", ())):
        source = volume.get("source", "") if isinstance(volume, dict) else str(volume).partition(":")[0]
        kind = volume.get("type") if isinstance(volume, dict) else None
        if kind in {None, "volume"} and re.match(r"^[A-Za-z0-9][\w.-]*$", source) and source not in volumes:
            known = one_of(source, volumes) if volumes else f"add {source} to volumes at the top"
            yield (place / "volumes" / k).wrong(f"no volume {source!r}", known)
    build = service.get("build")
    context = build.get("context", ".") if isinstance(build, dict) else build
    file = Path(place.file).parent
    if context is not None and "://" not in context and "$" not in context:
        name = build.get("dockerfile", "Dockerfile") if isinstance(build, dict) else "Dockerfile"
        if not (file / context / name).exists():
            line = f"{name!r}: no such file in {str(context)!r}"
            yield (place / "build").wrong(line, "name the Dockerfile")


def _check_command(service: Mapping[str, Any], place: Place, rlsched: Refusal) -> Problems:
    for key in ("entrypoint", "command"):
        given = service.get(key)
        if given is None:
            continue
        text = given if isinstance(given, str) else shlex.join(map(str, given))
        yield from check_commands(place / key, text, rlsched)
        if re.search(r"\bray start\b", text):
            if "--block" not in text:
                yield (place / key).wrong("`ray start` without --block ends the container", "add --block")
            yield from check_token(place / "environment", str(service.get("environment", "")))
            if "shm_size" not in service:
                line = "is missing: Docker gives 64 MB, and Ray keeps its objects there"
                yield (place / "shm_size").wrong(line, "write shm_size: 2gb")
