"""Kinds of KubeRay beyond their schema: versions, sizes of groups, entrypoints and what is served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError
from ray.scripts.scripts import start
from ray.serve.schema import ServeApplicationSchema, ServeDeploySchema

from rlsched.deploy.commands import check_commands, commands_in, option
from rlsched.deploy.documents import at, read_documents
from rlsched.deploy.findings import RAY, Place, Problems, Refusal, Served, count
from rlsched.errors import BadInputError

CLUSTER = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}
"""Where in its `spec` the cluster of a kind stands."""

OURS = "rlsched.serve.app:build"
"""What builds our service."""

_IN_TAG = re.compile(r"(?:/ray(?:-ml)?:|ray)([0-9]+\.[0-9]+\.[0-9]+)")
START = {name.removeprefix("--") for parameter in start.params for name in parameter.opts if name[:2] == "--"}
"""Options of `ray start`, which `rayStartParams` are."""

SPOT = ("cloud.google.com/gke-spot", "eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type")
"""Labels of nodes that say whether they are kept."""


def describe_ray_kind(document: Mapping[str, Any]) -> str:
    """The size of a cluster, in brackets; nothing for kinds that are none."""
    cluster = _cluster(document)
    if cluster is None:
        return ""
    groups = at(cluster, "workerGroupSpecs") or []
    least = sum(group.get("minReplicas", 0) for group in groups)
    most = sum(group.get("maxReplicas", group.get("replicas", 0)) for group in groups)
    return f" ({count(len(groups), 'group')}, {least} to {most} workers)"


def _cluster(document: Mapping[str, Any]) -> Any:
    if not str(document.get("apiVersion")).startswith("ray.io/"):
        return None
    return at(document, "spec", *CLUSTER.get(str(document.get("kind")), ("",)))


def check_ray_kind(document: dict[str, Any], place: Place, rlsched: Refusal, served: Served) -> Problems:
    """What the schema of a Ray kind lets through.

    Args:
        document: that fits it.
        place: of the document.
        rlsched: what that would refuse.
        served: what our service would refuse.
    """
    cluster = _cluster(document)
    here = place / "spec"
    for key in CLUSTER.get(document["kind"], ()):
        here = here / key
    if cluster is not None:
        yield from _check_cluster(cluster, here)
    if document["kind"] == "RayJob":
        yield from _check_job(document["spec"], place / "spec", rlsched)
    if document["kind"] == "RayService":
        yield from _check_service(document["spec"], place / "spec", served)


def _check_cluster(cluster: Mapping[str, Any], place: Place) -> Problems:
    version = cluster.get("rayVersion")
    if version != RAY:
        problem = "is missing" if version is None else f"value {version!r}"
        yield (place / "rayVersion").wrong(problem, f"use {RAY!r}, as here")
    for here, pod in _pods(cluster, place):
        containers = at(pod, "spec", "containers")
        if not containers:
            yield (here / "spec" / "containers").wrong("is empty", "the first one runs Ray")
            continue
        image = containers[0].get("image", "")
        for tag in _IN_TAG.findall(image):
            if tag != RAY:
                line = f"{image!r} has ray {tag}"
                yield (here / "spec" / "containers" / 0 / "image").wrong(line, f"use {RAY}, as here")
    groups = cluster.get("workerGroupSpecs", [])
    for k, group in enumerate(groups):
        yield from _check_group(group, place / "workerGroupSpecs" / k)
        if group["groupName"] in [one["groupName"] for one in groups[:k]]:
            here = place / "workerGroupSpecs" / k / "groupName"
            yield here.wrong(f"{group['groupName']!r} stands twice", "name each its own")
    if "autoscalerOptions" in cluster and not cluster.get("enableInTreeAutoscaling"):
        line = "counts only with enableInTreeAutoscaling"
        yield (place / "autoscalerOptions").wrong(line, "set that to true, or leave this out")
    selector = at(cluster, "headGroupSpec", "template", "spec", "nodeSelector") or {}
    for label in SPOT:
        if str(selector.get(label, "")).lower() in {"true", "spot"}:
            yield (place / "headGroupSpec" / "template" / "spec" / "nodeSelector" / label).wrong(
                "the head is on a spot node, whose loss ends the cluster", "leave it out"
            )
    for here, given in _start_params(cluster, place):
        for key in given:
            if key not in START:
                yield (here / key).unknown("key", key, START)


def _pods(cluster: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Any]]:
    yield place / "headGroupSpec" / "template", at(cluster, "headGroupSpec", "template")
    for k, group in enumerate(cluster.get("workerGroupSpecs", [])):
        yield place / "workerGroupSpecs" / k / "template", group["template"]


def _start_params(cluster: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Mapping[str, str]]]:
    yield place / "headGroupSpec" / "rayStartParams", at(cluster, "headGroupSpec", "rayStartParams") or {}
    for k, group in enumerate(cluster.get("workerGroupSpecs", [])):
        yield place / "workerGroupSpecs" / k / "rayStartParams", group.get("rayStartParams", {})


def _check_group(group: Mapping[str, Any], place: Place) -> Problems:
    least, most = group.get("minReplicas", 0), group.get("maxReplicas")
    wanted = group.get("replicas", least)
    if most is not None and least > most:
        yield (place / "minReplicas").wrong(f"value {least} is above maxReplicas ({most})", "lower it")
    elif wanted < least:
        yield (place / "replicas").wrong(f"value {wanted} is below minReplicas ({least})", "raise it")
    elif most is not None and wanted > most:
        yield (place / "replicas").wrong(f"value {wanted} is above maxReplicas ({most})", "lower it")
    limits = at(group, "template", "spec", "containers", 0, "resources", "limits") or {}
    gpus, said = limits.get("nvidia.com/gpu"), at(group, "rayStartParams", "num-gpus")
    if said is not None and str(gpus or 0) != said:
        line = f"value {said!r}, but the pod has nvidia.com/gpu: {gpus or 0}"
        yield (place / "rayStartParams" / "num-gpus").wrong(line, "leave it out: KubeRay knows")


def _check_job(spec: Mapping[str, Any], place: Place, rlsched: Refusal) -> Problems:
    here = place / "entrypoint"
    if "entrypoint" not in spec:
        if spec.get("submissionMode") != "InteractiveMode":
            yield here.wrong("is missing", "say what is to run")
        return
    if "rayClusterSpec" not in spec and "clusterSelector" not in spec:
        yield (place / "rayClusterSpec").wrong("is missing", "say on what cluster it is to run")
    yield from check_commands(here, spec["entrypoint"], rlsched)
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        line = "counts only with shutdownAfterJobFinishes"
        yield (place / "ttlSecondsAfterFinished").wrong(line, "set that to true, or leave this out")
    try:
        found = [words for words in commands_in(spec["entrypoint"]) if words[0] == "rlsched"]
    except ValueError:
        return  # said above
    runs = [words for words in found if words[1:2] in (["train"], ["tune"])]
    for words in runs:
        if option(words, "--address") != "auto":
            line = f"{words[1]} without --address auto keeps to the head's pod"
            yield here.wrong(line, "add it")
        yield from _check_out(words, spec, here)
    if spec.get("backoffLimit") and runs and not any("--resume" in words for words in runs):
        line = f"value {spec['backoffLimit']}, but the entrypoint never goes on with --resume"
        yield (place / "backoffLimit").wrong(line, "begin where there is no run, else --resume")


def _check_out(words: list[str], spec: Mapping[str, Any], place: Place) -> Problems:
    """Runs must outlive the pod they are written in."""
    out = option(words, "--out") or ""
    pod = at(spec, "rayClusterSpec", "headGroupSpec", "template", "spec")
    mounts = at(pod, "containers", 0, "volumeMounts") or []
    fleeting = {volume["name"] for volume in at(pod, "volumes") or () if "emptyDir" in volume}
    folders = [mount["mountPath"].rstrip("/") for mount in mounts if mount["name"] not in fleeting]
    # What stands in a variable was taken for 1.
    if pod is not None and out != "1" and not any(f"{out}/".startswith(f"{folder}/") for folder in folders):
        where = f"in one of {', '.join(folders)}" if folders else "on a volume that is mounted"
        what = f"--out {out!r}" if out else "a run without --out"
        yield place.wrong(f"{what} is lost with the head's pod", f"put it {where}")


def _check_service(spec: Mapping[str, Any], place: Place, served: Served) -> Problems:
    here = place / "serveConfigV2"
    try:
        documents = read_documents(spec["serveConfigV2"], str(here))
    except BadInputError as error:
        yield error
        return
    if len(documents) != 1 or not isinstance(documents[0], dict):
        yield here.wrong("is no mapping", "give applications")
        return
    config = documents[0]
    # Ray takes unknown keys for those of versions to come.
    unknown = list(_unknown(config, ServeDeploySchema.model_fields, here))
    apps = config.get("applications")
    for k, app in enumerate(apps if isinstance(apps, list) else ()):
        if isinstance(app, dict):
            unknown += _unknown(app, ServeApplicationSchema.model_fields, here / "applications" / k)
    yield from unknown
    if unknown:
        return
    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        for one in error.errors():
            path = here
            for part in one["loc"]:
                path = path / part
            yield path.wrong(" ".join(one["msg"].split()), "see the schema of Ray Serve")
        return
    for k, app in enumerate(config["applications"]):
        yield from _check_app(app, here / "applications" / k, served)


def _unknown(values: Mapping[str, Any], known: Iterable[str], place: Place) -> Problems:
    for key in values:
        if key not in known:
            yield (place / key).unknown("key", key, known)


def _check_app(app: Mapping[str, Any], place: Place, served: Served) -> Problems:
    prefix = app.get("route_prefix", "/")
    if prefix is not None and not str(prefix).startswith("/"):
        yield (place / "route_prefix").wrong(f"value {prefix!r}", "begin it with /")
    wrong = list(_check_import(app["import_path"], place / "import_path"))
    yield from wrong
    if app["import_path"] == OURS and not wrong:
        try:
            served(app.get("args", {}), str(place / "args"))
        except BadInputError as error:
            yield error


def _check_import(path: str, place: Place) -> Problems:
    """What is ours must be there; other modules may be in images that nobody sees from here."""
    module = path.partition(":")[0]
    if module.partition(".")[0] != "rlsched":
        return
    try:
        there = find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        there = False
    if not there:
        yield place.wrong(f"{path!r}: no module {module}", f"use {OURS}")
