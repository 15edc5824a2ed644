"""Files of `ray up`: Ray's own schema and checks, keys of the clouds, and cross-checks."""

from __future__ import annotations

import json
import logging
import os
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import ray.autoscaler

from rlsched.deploy.commands import Refusal, check_commands, option
from rlsched.deploy.findings import Place
from rlsched.deploy.schema import check_schema, load_schema
from rlsched.deploy.texts import check_head, check_ray_start, check_texts
from rlsched.learn.rllib.ray_compat import validate_cluster


def check_ray_up(config: dict[str, Any], place: Place, refusal: Refusal) -> None:
    """Check a file of `ray up`, whose relative paths begin at the current folder."""
    place.report.kind = "ray up"
    # Ray removes this key for the provider `local` before it checks.
    for_ray = {key: value for key, value in config.items() if key != "min_workers"}
    ray_schema = (Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text("utf-8")
    if not check_schema(place, for_ray, json.loads(ray_schema)):
        return
    if not check_schema(place, config, load_schema("ray_up.yaml")):
        return
    cloud = config["provider"]["type"]
    if cloud not in {"aws", "gcp", "local"}:
        place.report.unchecked.append(f"node_config: has no schema for {cloud}")
    check_texts(config, place)
    _check_files(config.get("file_mounts", {}), place / "file_mounts")
    types = config.get("available_node_types", {})
    for name, node_type in types.items():
        type_place = place / "available_node_types" / name
        least, most = node_type.get("min_workers", 0), node_type.get("max_workers")
        if most is not None and least > most:
            (type_place / "min_workers").error(f"value {least} is above max_workers ({most})", "lower it")
        if name == config["head_node_type"]:
            check_head(type_place / "node_config", node_type["node_config"])
    _check_commands(config, place, refusal)
    if not place.report.problems:
        _check_by_ray(config, place)
    place.report.summary.append(f"{cloud}: {', '.join(types) or 'head and workers'}")


def _check_files(mounts: dict[str, str], place: Place) -> None:
    """Report files that are missing. Those below / and ~ may be on the user's machine only."""
    for remote, local in mounts.items():
        if not os.path.exists(os.path.expanduser(local)):
            if local.startswith(("/", "~")):
                place.report.unchecked.append(f"{local}: does not exist here")
            else:
                (place / remote).error(f"{local!r}: no such file or folder", "name what is to be copied")


def _check_commands(config: dict[str, Any], place: Place, refusal: Refusal) -> None:
    """Check all shell text, and that head and workers find each other."""
    commands, ray_texts = [], []
    for key in [key for key in config if key.endswith("_commands")]:
        for k, text in enumerate(config[key]):
            # A variable is read as 1; this one is a host.
            commands += check_commands(place / key / k, text.replace("$RAY_HEAD_IP", "head"), refusal)
            ray_texts += [text] if "ray start" in text else []
    if ray_texts:
        check_ray_start(place / "*_start_ray_commands", commands, ray_texts, block=False)
        if all(option(words, "--autoscaling-config") is None for words in commands):
            remedy = "add --autoscaling-config=~/ray_bootstrap_config.yaml"
            (place / "head_start_ray_commands").error("the head starts no workers", remedy)


def _check_by_ray(config: dict[str, Any], place: Place) -> None:
    """Report faults that `ray up` refuses before it starts anything."""
    logging.disable(logging.WARNING)  # as it tells the defaults it takes
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            validate_cluster(config)
    except Exception as error:  # Ray does not say of which kinds
        place.error(f"Ray refuses it ({error!r})", "correct the value it names")
    finally:
        logging.disable(logging.NOTSET)
