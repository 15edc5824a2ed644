"""Kubernetes manifests, with KubeRay's kinds: their schemas, and cross-checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from ray.serve.schema import ServeDeploySchema

from rlsched.deploy.commands import Refusal, check_commands, option
from rlsched.deploy.findings import Place, one_of
from rlsched.deploy.schema import check_schema, load_schema
from rlsched.deploy.texts import RAY, check_head, check_texts, walk
from rlsched.learn.rllib.ray_compat import kubernetes_quantity
from rlsched.settings_files import read_yaml

CheckService = Callable[[Mapping[str, Any], str], None]
"""Raises BadInputError for wrong arguments of the decision service; takes these and their place."""

SERVICE = "rlsched.serve.app:build"


def check_manifest(document: Any, place: Place, refusal: Refusal, check_service: CheckService) -> None:
    """Check one YAML document as a manifest."""
    place.report.kind = "Kubernetes"
    if not check_schema(place, document, {"type": "object", "required": ["apiVersion", "kind"]}):
        return
    kubernetes, kuberay = load_schema("kubernetes.json.gz"), load_schema("kuberay.yaml")
    kinds = kubernetes["kinds"] | kuberay["kinds"]
    version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    name = f"{version} {kind}"
    if name not in kinds:
        if {version, kind} & set(" ".join(kinds).split()):
            place.error(f"{name!r} is no kind", one_of(name, kinds))
        else:
            place.report.unchecked.append(f"{name}: has no schema here")
        return
    schema = {"$defs": kubernetes["$defs"] | kuberay["$defs"], "$ref": f"#/$defs/{kinds[name]}"}
    if not check_schema(place, document, schema | {"allOf": [kuberay["named"]]}):
        return
    place.report.summary.append(f"{kind} {document['metadata'].get('name')}")
    check_texts(document, place)
    for value_place, value in walk(document, place):
        if isinstance(value, dict) and isinstance(value.get("containers"), list):
            _check_pod(value, value_place)
        if isinstance(value, dict) and "headGroupSpec" in value:
            _check_ray_cluster(value, value_place)
    spec = document.get("spec", {})
    if kind == "RayJob" and "entrypoint" in spec:
        _check_entrypoint(spec, place / "spec", refusal)
    if kind == "RayService":
        _check_service(spec["serveConfigV2"], place / "spec" / "serveConfigV2", check_service)


def _check_pod(pod: Mapping[str, Any], place: Place) -> None:
    """Report volumes that are missing, and requests above their limits."""
    volumes = [volume["name"] for volume in pod.get("volumes", ())]
    for k, container in enumerate(pod["containers"]):
        pod_place = place / "containers" / k
        for name in (mount["name"] for mount in container.get("volumeMounts", ())):
            if name not in volumes:
                (pod_place / "volumeMounts").error(f"no volume {name!r}", one_of(name, volumes))
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        for name, request in resources.get("requests", {}).items():
            if name in limits and kubernetes_quantity(request) > kubernetes_quantity(limits[name]):
                problem = f"{name} {request!r} is above its limit {limits[name]!r}"
                (pod_place / "resources" / "requests").error(problem, "lower it")


def _check_ray_cluster(cluster: Mapping[str, Any], place: Place) -> None:
    if cluster.get("rayVersion") != RAY:
        (place / "rayVersion").error(f"value {cluster.get('rayVersion')!r}", f"use {RAY!r}, as installed")
    head = cluster["headGroupSpec"]["template"].get("spec", {})
    check_head(place / "headGroupSpec", head.get("nodeSelector"))
    for k, group in enumerate(cluster.get("workerGroupSpecs", ())):
        least, most = group.get("minReplicas", 0), group.get("maxReplicas", 2**31 - 1)
        if not least <= group.get("replicas", least) <= most:
            group_place = place / "workerGroupSpecs" / k
            group_place.error("replicas is not between minReplicas and maxReplicas", "correct the numbers")


def _check_entrypoint(spec: Mapping[str, Any], place: Place, refusal: Refusal) -> None:
    """Report wrong commands, and runs that use the head's pod alone or are lost with it."""
    command_place = place / "entrypoint"
    commands = check_commands(command_place, spec["entrypoint"], refusal)
    runs = [words for words in commands if words[1] in {"train", "tune"}]
    pod = spec.get("rayClusterSpec", {}).get("headGroupSpec", {}).get("template", {}).get("spec", {})
    mounts = [mount for container in pod.get("containers", ()) for mount in container.get("volumeMounts", ())]
    persistent = {volume["name"] for volume in pod.get("volumes", ()) if "emptyDir" not in volume}
    folders = tuple(f"{mount['mountPath'].rstrip('/')}/" for mount in mounts if mount["name"] in persistent)
    for words in runs:
        if option(words, "--address") != "auto":
            command_place.error(f"{words[1]} without --address auto uses the head's pod alone", "add it")
        out = option(words, "--out") or ""
        if pod and out != "1" and not f"{out}/".startswith(folders):  # 1: a variable
            command_place.error(f"--out {out!r} is lost with the head's pod", "name a folder on a volume")
    if spec.get("backoffLimit") and runs and not any("--resume" in words for words in runs):
        (place / "backoffLimit").error("the entrypoint never resumes a run", "add a branch with --resume")


def _check_service(text: str, place: Place, check_service: CheckService) -> None:
    """Check the configuration of Ray Serve by its own schema, and the arguments of our service."""
    values = read_yaml(text, str(place))
    if not check_schema(place, values, load_schema("kuberay.yaml")["serve"]):
        return
    try:
        config = ServeDeploySchema.model_validate(values)
    except ValidationError as error:
        for fault in error.errors():
            (place / ".".join(map(str, fault["loc"]))).error(fault["msg"], "see the schema of Ray Serve")
        return
    for k, application in enumerate(config.applications):
        app_place = place / "applications" / k
        if application.import_path == SERVICE:
            check_service(application.args, str(app_place / "args"))
        elif application.import_path.startswith("rlsched."):
            (app_place / "import_path").error(f"value {application.import_path!r}", f"use {SERVICE}")
