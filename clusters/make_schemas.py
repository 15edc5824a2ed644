"""Write rlsched/deploy/schemas/: what `rlsched cluster check` holds Kubernetes and compose files against.

    python clusters/make_schemas.py

Needs what rlsched does not, in an environment of its own: `pip install kubernetes==37.0.2` and
`pip install --no-deps docker-compose==1.29.2`. The same bytes at every run. YAML files are written by hand.
"""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "rlsched" / "deploy" / "schemas"
KINDS = {
    "v1": (
        *("ConfigMap", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "ResourceQuota"),
        *("Secret", "Service", "ServiceAccount"),
    ),
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "batch/v1": ("CronJob", "Job"),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("StorageClass",),
}
# The client says string; the server takes numbers, too.
QUANTITIES = {"capacity", "default", "defaultRequest", "divisor", "hard", "limits", "requests", "sizeLimit"}
# Nor does the client know these words.
WORDS = {
    "imagePullPolicy": ["Always", "IfNotPresent", "Never"],
    "effect": ["NoExecute", "NoSchedule", "PreferNoSchedule"],
    "operator": ["DoesNotExist", "Equal", "Exists", "Gt", "In", "Lt", "NotIn"],
    "restartPolicy": ["Always", "Never", "OnFailure"],
    "accessModes": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"],
}
QUANTITY = {"$ref": "#/$defs/Quantity"}
QUANTITY_PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"

RESOURCE = {
    "propertyNames": {
        "pattern": r"^(cpu|memory|ephemeral-storage|storage|hugepages-.+|.+/.+)$",
        "examples": ["cpu", "memory", "nvidia.com/gpu"],
    }
}
# What the server refuses, and the client does not.
STRICTER = {
    "V1ContainerPort": {"containerPort": {"minimum": 1, "maximum": 65535}},
    "V1ObjectMeta": {
        "name": {"pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "examples": ["lower-case-1"]},
    },
    "V1ResourceRequirements": {"limits": RESOURCE, "requests": RESOURCE},
    "V1VolumeMount": {"mountPath": {"pattern": "^/", "examples": ["/FOLDER"]}},
}


def plain(schema: Any) -> Any:
    """What pydantic says of a model, without prose and without null, which nobody writes on purpose."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in {"description", "title", "default"}}
    if "properties" in kept:  # whose names may be those words
        kept["properties"] = {name: field(name, value) for name, value in schema["properties"].items()}
        return {key: value if key == "properties" else plain(value) for key, value in kept.items()}
    choices = [choice for choice in kept.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        return plain({**{key: value for key, value in kept.items() if key != "anyOf"}, **choices[0]})
    return {key: plain(value) for key, value in (kept | ({"anyOf": choices} if choices else {})).items()}


def field(name: str, schema: Any) -> Any:
    """The schema of a field."""
    found = plain(schema)
    if name in QUANTITIES and found.get("type") == "string":
        return QUANTITY
    if name in QUANTITIES and found.get("additionalProperties") == {"type": "string"}:
        return {"type": "object", "additionalProperties": QUANTITY}
    if name in WORDS:
        words = {"enum": WORDS[name]}
        return {"type": "array", "items": words} if found["type"] == "array" else words
    return found


def kubernetes() -> dict[str, Any]:
    """One schema of all kinds; `kinds` says which definition stands for which apiVersion and kind."""
    client = import_module("kubernetes.client")
    definitions: dict[str, Any] = {
        "Quantity": {
            "minimum": 0,
            "type": ["integer", "number", "string"],
            "pattern": QUANTITY_PATTERN,
            "examples": ["16Gi", "500m", "4"],
        }
    }
    kinds = {}
    for version, names in KINDS.items():
        for name in names:
            found = getattr(client, f"V1{name}").model_json_schema(by_alias=True)
            definitions |= {key: plain(value) for key, value in found.pop("$defs", {}).items()}
            definitions[f"V1{name}"] = plain(found)
            kinds[f"{version} {name}"] = f"V1{name}"
    for name, rules in STRICTER.items():
        for key, rule in rules.items():
            definitions[name]["properties"][key] |= rule
    definitions["V1Container"]["required"] = ["image", "name"]
    definitions["V1Volume"]["minProperties"] = 2  # its name, and its kind
    return {"kinds": kinds, "$defs": definitions}


# Keys of Compose that came after the schema of docker-compose 1.29.
NEW_KEYS = ("include", "models", "name")
NEW_SERVICE_KEYS = (
    *("annotations", "attach", "cgroup", "develop", "gpus", "label_file", "models", "oom_kill_disable"),
    *("post_start", "pre_stop", "provider", "storage_opt", "use_api_socket", "uts"),
)


def marked(schema: Any) -> Any:
    """The schema with its version in each closed mapping: a newer one may have more keys."""
    if isinstance(schema, list):
        return [marked(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    version = {"$comment": "Compose 1.29"} if schema.get("additionalProperties") is False else {}
    return {key: marked(value) for key, value in schema.items()} | version


def compose() -> dict[str, Any]:
    """The Compose Specification's own schema, as Docker's first compose shipped it, with newer keys."""
    found = distribution("docker-compose").locate_file("compose/config/compose_spec.json")
    schema = dict(json.loads(Path(str(found)).read_text("utf-8")))
    schema["properties"] |= {key: {} for key in NEW_KEYS}
    schema["definitions"]["service"]["properties"] |= {key: {} for key in NEW_SERVICE_KEYS}
    built = {"anyOf": [{"required": [key]} for key in ("build", "extends", "provider")]}
    schema["definitions"]["service"] |= {"if": {"not": built}, "then": {"required": ["image"]}}
    return dict(marked(schema))


def main() -> None:
    """Write both."""
    for name, schema in {"kubernetes": kubernetes(), "compose": compose()}.items():
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
