"""Files of `ray up`: Ray's own schema and rules, and what these let through."""

from __future__ import annotations

import json
import logging
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import ray.autoscaler
from ray.autoscaler._private import util
from ray.autoscaler._private.providers import _NODE_PROVIDERS

from rlsched.deploy.clouds import KNOWN, check_node
from rlsched.deploy.commands import check_commands, check_token, commands_in, option
from rlsched.deploy.documents import at
from rlsched.deploy.findings import RAY, Found, Place, Problems, Refusal, count, missing, one_of
from rlsched.deploy.schema import fits

COMMANDS = (
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands"),
)
PROVIDER = {
    "aws": (
        *("availability_zone", "cache_stopped_nodes", "cloudwatch", "region", "security_group", "type"),
        "use_internal_ips",
    ),
    "gcp": ("availability_zone", "gcp_credentials", "project_id", "region", "type", "use_internal_ips"),
    "local": ("coordinator_address", "head_ip", "type", "worker_ips"),
}
"""What Ray reads of a provider; its schema takes any key."""

RESOURCES = {"CPU", "GPU", "TPU", "memory", "object_store_memory"}
_PIN = re.compile(r"\bray(?:\[[^\]]*\])?\s*==\s*([0-9][\w.]*)")
_TAG = re.compile(r"rayproject/ray(?:-ml)?:([0-9]+\.[0-9]+\.[0-9]+)")


def is_ray_up(document: Any) -> bool:
    """Whether a YAML document is a file of `ray up`."""
    return isinstance(document, dict) and {"cluster_name", "provider"} <= document.keys()


def describe(config: dict[str, Any]) -> Found:
    """What a file of `ray up` holds."""
    cloud = str(at(config, "provider", "type"))
    if cloud == "local":
        held = count(len(at(config, "provider", "worker_ips") or ()), "worker")
    else:
        types = at(config, "available_node_types") or {}
        held = f"{count(len(types) - 1, 'kind')} of workers, at most {config.get('max_workers', 0)} of them"
    unchecked = [] if cloud in PROVIDER else [f"node_config of {cloud}"]
    unchecked += [
        f"{local}, which is not there yet"
        for local in (config.get("file_mounts") or {}).values()
        if str(local).startswith(("/", "~")) and not Path(str(local)).expanduser().exists()
    ]
    return Found("ray up", f"{cloud}: a head, {held}", tuple(unchecked))


def check_ray_up(config: dict[str, Any], place: Place, rlsched: Refusal) -> Problems:
    """What is wrong with a file of `ray up`."""
    schema = _schema()
    if at(config, "provider", "type") == "local":  # which takes a key that Ray removes before it looks
        schema["properties"]["min_workers"] = schema["properties"]["max_workers"]
    found = list(fits(place, config, schema, draft7=True))
    if not found:  # else what follows would trip over it
        found = [*_check_values(config, place, rlsched)] or [*_check_as_ray_does(config, place)]
    yield from found


def _schema() -> dict[str, Any]:
    """Ray's own, and what it leaves open: of what lists are, and that there are no fewer than no workers."""
    schema: dict[str, Any] = json.loads(
        (Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text("utf-8")
    )
    known = schema["properties"]
    for words in (
        known["rsync_exclude"],
        known["rsync_filter"],
        known["provider"]["properties"]["worker_ips"],
    ):
        words["items"] = {"type": "string"}
    known["file_mounts"]["additionalProperties"] = {"type": "string"}
    for kind in known["available_node_types"]["patternProperties"].values():
        for number in ("min_workers", "max_workers"):
            kind["properties"][number]["minimum"] = 0
    return schema


def _check_as_ray_does(config: dict[str, Any], place: Place) -> Problems:
    """What Ray itself would say at the beginning of `ray up`."""
    logger = logging.getLogger(util.__name__)
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells which defaults it takes
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # nor is advice asked for
            util.validate_config(util.prepare_config(config))
    except (ValueError, RuntimeError, AssertionError) as error:
        yield place.wrong(f"Ray refuses it ({error})", "change what it names")
    finally:
        logger.setLevel(level)


def _check_values(config: dict[str, Any], place: Place, rlsched: Refusal) -> Problems:
    """What Ray's schema lets through."""
    yield from _check_provider(config, place)
    yield from _check_types(config, place)
    for key in COMMANDS:
        for k, command in enumerate(config.get(key) or ()):
            yield from check_commands(place / key / k, command, rlsched)
            for pin in _PIN.findall(command):
                if pin != RAY:
                    yield (place / key / k).wrong(f"installs ray {pin}", f"use {RAY}, as here")
    yield from _check_start(config, place)
    yield from _check_docker(config, place)
    yield from _check_mounts(config, place)


def _check_provider(config: dict[str, Any], place: Place) -> Problems:
    provider, here = config["provider"], place / "provider"
    if provider["type"] not in _NODE_PROVIDERS:
        line = f"value {provider['type']!r}"
        yield (here / "type").wrong(line, one_of(provider["type"], PROVIDER))
    known = PROVIDER.get(provider["type"])
    for key in provider if known else ():
        if key not in (known or ()):
            yield (here / key).unknown("key", key, known or ())
    if provider["type"] == "local" and "coordinator_address" not in provider:
        for key in missing(("head_ip", "worker_ips"), provider, known or ()):
            yield (here / key).wrong("is missing", "name the machines")
        ips = provider.get("worker_ips", [])
        for k, ip in enumerate(ips):
            if ip == provider.get("head_ip") or ip in ips[:k]:
                yield (here / "worker_ips" / k).wrong(f"{ip!r} stands twice", "name each machine once")
        for key in ("min_workers", "max_workers"):
            if config.get(key, 0) > len(ips):
                line = f"value {config[key]}, but there are {len(ips)} worker_ips"
                yield (place / key).wrong(line, f"use at most {len(ips)}")
    if provider["type"] == "local" and "available_node_types" in config:
        line = "machines that are there have no types"
        yield (place / "available_node_types").wrong(line, "leave it out")
    if provider["type"] in {"aws", "gcp"}:
        for key in missing(("region",), provider, known or ()):
            yield (here / key).wrong("is missing", "name one")
    if not at(config, "auth", "ssh_user"):
        yield (place / "auth" / "ssh_user").wrong("is missing", "name whom Ray is to log in as")


def _check_types(config: dict[str, Any], place: Place) -> Problems:
    types, head = config.get("available_node_types"), config.get("head_node_type")
    cloud = config["provider"]["type"]
    if cloud == "local":
        return
    if not types:
        yield (place / "available_node_types").wrong("is missing", "say what machines there may be")
        return
    here = place / "available_node_types"
    if head not in types:
        problem = "is missing" if head is None else f"value {head!r}"
        yield (place / "head_node_type").wrong(problem, f"use one of {', '.join(types)}")
    for name, kind in types.items():
        least, most = kind.get("min_workers", 0), kind.get("max_workers", config.get("max_workers", 0))
        if name != head and least > most:
            yield (here / name / "min_workers").wrong(
                f"value {least} is above max_workers ({most})", "lower it"
            )
        for resource in kind.get("resources") or ():
            if resource not in RESOURCES and resource.upper().rstrip("S") in RESOURCES:
                right = resource.upper().rstrip("S")
                yield (here / name / "resources" / resource).wrong(
                    "Ray knows no such resource", f"did you mean {right!r}?"
                )
        if cloud in KNOWN:
            node = kind.get("node_config")
            if node is None:
                yield (here / name / "node_config").wrong("is missing", "say what machine it is")
            else:
                yield from check_node(here / name / "node_config", node, cloud, head=name == head)
    least = sum(kind.get("min_workers", 0) for kind in types.values())
    if least > config.get("max_workers", least):
        line = f"value {config['max_workers']} is below the sum of all min_workers ({least})"
        yield (place / "max_workers").wrong(line, f"use at least {least}")


def _check_start(config: dict[str, Any], place: Place) -> Problems:
    """Whether Ray is started as the autoscaler, and the nodes, find each other."""
    ports = {}
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        if key not in config:
            continue
        started = [
            words for text in config[key] for words in commands_in(text) if words[:2] == ["ray", "start"]
        ]
        here = place / key
        if len(started) != 1:
            yield here.wrong(f"starts Ray {len(started)} times", "write one `ray start`")
            continue
        words = started[0]
        yield from check_token(here, "\n".join(config[key]))
        if key.startswith("head"):
            if "--head" not in words:
                yield here.wrong("starts no head", "write `ray start --head`")
            if option(words, "--autoscaling-config") is None:
                remedy = "add --autoscaling-config=~/ray_bootstrap_config.yaml"
                yield here.wrong("the head will start no workers", remedy)
            ports[key] = option(words, "--port") or "6379"
        else:
            address = option(words, "--address")
            if not address or not any("$RAY_HEAD_IP:" in text for text in config[key]):
                yield here.wrong("joins no head", "write `ray start --address=$RAY_HEAD_IP:6379`")
                continue
            ports[key] = address.rpartition(":")[2]
    if len(ports) == 2 and len(set(ports.values())) > 1:
        head, worker = ports.values()
        yield (place / "worker_start_ray_commands").wrong(
            f"joins at port {worker}, but the head listens at {head}", "use one port for both"
        )


def _check_docker(config: dict[str, Any], place: Place) -> Problems:
    docker, here = config.get("docker") or {}, place / "docker"
    images = {key: value for key, value in docker.items() if key.endswith("image")}
    if images and not docker.get("container_name"):
        yield (here / "container_name").wrong("is missing", "name the container")
    for key, image in images.items():
        for tag in _TAG.findall(image):
            if tag != RAY:
                yield (here / key).wrong(f"{image!r} has ray {tag}", f"use {RAY}, as here")


def _check_mounts(config: dict[str, Any], place: Place) -> Problems:
    for remote, local in (config.get("file_mounts") or {}).items():
        here = place / "file_mounts" / remote
        if not remote.startswith(("/", "~")):
            yield here.wrong("is relative", "begin it with / or ~")
        # What lies elsewhere is of whoever calls `ray up`.
        if not str(local).startswith(("/", "~")) and not Path(str(local)).exists():
            yield here.wrong(f"{str(local)!r}: no such file or folder here", "name what is to be copied")
