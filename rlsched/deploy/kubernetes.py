"""Kubernetes manifests: schemas of their kinds, and what goes with what inside of a pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlsched.deploy.documents import at
from rlsched.deploy.findings import Found, Place, Problems, Refusal, Served, one_of
from rlsched.deploy.kuberay import check_ray_kind, describe_ray_kind
from rlsched.deploy.schema import KUBERAY, fits, kinds, unknown_keys

SUFFIXES = {
    **{"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15},
    **{"E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60},
}
_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)$")
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu")
"""Resources that are never shared: what is asked for is what is got."""


def is_manifest(document: Any) -> bool:
    """Whether a YAML document is one of Kubernetes."""
    return isinstance(document, dict) and bool({"apiVersion", "kind"} & document.keys())


def describe(documents: list[dict[str, Any]]) -> Found:
    """What manifests hold."""
    held, unchecked = [], []
    known = kinds()
    for document in documents:
        name = f"{document.get('kind')} {at(document, 'metadata', 'name')}"
        held.append(name + describe_ray_kind(document))
        if _kind(document) not in known:
            unchecked.append(f"{name}: {document.get('apiVersion')} is of somebody else")
            continue
        if document["kind"] == "RayCronJob":
            unchecked.append(f"{name}: its jobTemplate")
        keys = list(unknown_keys(document, known[_kind(document)]))
        if keys:
            unchecked.append(f"{name}: {', '.join(keys)}, which KubeRay {KUBERAY} does not have")
    return Found("Kubernetes", "; ".join(held), tuple(unchecked))


def check_manifests(documents: list[Any], place: Place, rlsched: Refusal, served: Served) -> Problems:
    """What is wrong with the manifests of a file."""
    names: set[tuple[str, ...]] = set()
    for k, document in enumerate(documents):
        if not is_manifest(document):
            yield place.wrong(f"document {k + 1} is no manifest", "give it apiVersion and kind")
            continue
        name = str(at(document, "metadata", "name") or k + 1)
        within = f"{document.get('kind', 'document')} {name}"
        here = Place(place.file, within=within) if len(documents) > 1 else place
        yield from _check_manifest(document, here, rlsched, served)
        identity = (_kind(document), str(at(document, "metadata", "namespace")), name)
        if identity in names:
            yield here.wrong("stands twice in this file", "name each its own")
        names.add(identity)


def _kind(document: Mapping[str, Any]) -> str:
    return f"{document.get('apiVersion')} {document.get('kind')}"


def _check_manifest(document: dict[str, Any], place: Place, rlsched: Refusal, served: Served) -> Problems:
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str):
            yield (place / key).wrong("is missing", "give it a value")
            return
    known, kind = kinds(), _kind(document)
    if kind not in known:
        group = document["apiVersion"].rpartition("/")[0]
        ours = {name for name in known if name.split()[0].rpartition("/")[0] == group}
        alike = {name.split()[1]: name for name in known}
        if ours and document["kind"] not in alike:
            yield (place / "kind").wrong(
                f"value {document['kind']!r}", one_of(document["kind"], {name.split()[1] for name in ours})
            )
        elif document["kind"] in alike:
            right = alike[document["kind"]].split()[0]
            yield (place / "apiVersion").wrong(f"value {document['apiVersion']!r}", f"use {right}")
        return
    name = at(document, "metadata", "name")
    if name is None and at(document, "metadata", "generateName") is None:
        yield (place / "metadata" / "name").wrong("is missing", "give it a value")
    elif isinstance(name, str) and not _NAME.match(name):
        yield (place / "metadata" / "name").wrong(
            f"value {name!r}", "use lower-case letters, digits, '-' and '.'"
        )
    found = list(fits(place, document, known[kind]))
    yield from found
    if found:
        return  # what follows would trip over it
    yield from _check_pods(document, place)
    yield from check_ray_kind(document, place, rlsched, served)


def _check_pods(node: Any, place: Place) -> Problems:
    """Every pod, wherever in a manifest one is described."""
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield from _check_pod(node, place)
            return
        for key, value in node.items():
            yield from _check_pods(value, place / key)
    elif isinstance(node, list):
        for k, value in enumerate(node):
            yield from _check_pods(value, place / k)


def _check_pod(pod: Mapping[str, Any], place: Place) -> Problems:
    volumes = [volume["name"] for volume in pod.get("volumes", ())]
    for k, name in enumerate(volumes):
        if name in volumes[:k]:
            yield (place / "volumes" / k / "name").wrong(f"{name!r} stands twice", "name each its own")
        if len(pod["volumes"][k]) == 1:
            yield (place / "volumes" / k).wrong(f"{name!r} says nothing of what it is", "add emptyDir: {}")
    for group in ("initContainers", "containers"):
        for k, container in enumerate(pod.get(group, ())):
            here = place / group / k
            for m, mount in enumerate(container.get("volumeMounts", ())):
                if mount["name"] not in volumes:
                    known = one_of(mount["name"], volumes) if volumes else "add it to volumes"
                    yield (here / "volumeMounts" / m / "name").wrong(f"no volume {mount['name']!r}", known)
                if not mount["mountPath"].startswith("/"):
                    line = f"value {mount['mountPath']!r}"
                    yield (here / "volumeMounts" / m / "mountPath").wrong(line, "begin it with /")
            ports = [port["containerPort"] for port in container.get("ports", ())]
            for m, port in enumerate(ports):
                if not 0 < port < 65536:
                    yield (here / "ports" / m / "containerPort").wrong(f"value {port}", "use 1 to 65535")
            yield from _check_resources(container.get("resources", {}), here / "resources")
            if "image" not in container:
                yield (here / "image").wrong("is missing", "name one with its tag")
            else:
                yield from _check_image(container["image"], here / "image")


def _check_image(image: str, place: Place) -> Problems:
    tag = image.rpartition("/")[2].partition(":")[2]
    if "@" not in image and tag in {"", "latest"}:
        yield place.wrong(f"{image!r} is another image every day", "name a version")


def _check_resources(resources: Mapping[str, Any], place: Place) -> Problems:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for group in ("limits", "requests"):
        for name in resources.get(group, ()):
            if "/" not in name and not name.startswith("hugepages-") and name not in _OWN:
                yield (place / group / name).wrong("unknown resource", one_of(name, _OWN))
    for name, asked in requests.items():
        if name in limits and quantity(asked) > quantity(limits[name]):
            problem = f"value {asked!r} is above its limit ({limits[name]!r})"
            yield (place / "requests" / name).wrong(problem, "lower it")
        if name in WHOLE and limits.get(name) != asked:
            yield (place / "limits" / name).wrong(f"differs from requests ({asked!r})", "give it the same")


_OWN = ("cpu", "ephemeral-storage", "memory")


def quantity(value: Any) -> float:
    """A quantity of Kubernetes as a number."""
    matched = _QUANTITY.match(str(value))
    if matched is None or matched[2] not in SUFFIXES:
        raise ValueError(f"{value!r} is no quantity")
    return float(matched[1]) * SUFFIXES[matched[2]]
