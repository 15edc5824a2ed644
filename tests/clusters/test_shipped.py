"""Every cluster file that is shipped is right, and is what it is meant to be."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.serve.schema import ServeDeploySchema

from rlsched.cli.cluster import refusal, served
from rlsched.clusters.check import check

from .conftest import ROOT

KINDS = {
    "Dockerfile": "Dockerfile",
    "aws.yaml": "ray up",
    "compose.yaml": "compose",
    "gcp.yaml": "ray up",
    "kuberay/raycluster.yaml": "Kubernetes",
    "kuberay/rayjob-train.yaml": "Kubernetes",
    "kuberay/rayjob-tune.yaml": "Kubernetes",
    "kuberay/rayservice.yaml": "Kubernetes",
    "kuberay/storage.yaml": "Kubernetes",
    "on-prem.yaml": "ray up",
    "slurm.sh": "Slurm",
}
OTHERS = {"Dockerfile.dockerignore", "make_schemas.py"}


def test_none_is_left_out() -> None:
    folder = ROOT / "clusters"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {name for name in there if "__pycache__" not in name} == KINDS.keys() | OTHERS


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_it_passes(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found, problems = check(Path("clusters") / name, refusal, served)
    assert [str(problem) for problem in problems] == []
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("name", ["aws.yaml", "gcp.yaml", "on-prem.yaml"])
def test_ray_itself_takes_it(name: str) -> None:
    config = yaml.safe_load((ROOT / "clusters" / name).read_text())
    validate_config(prepare_config(copy.deepcopy(config)))


def test_ray_serve_itself_takes_what_is_served() -> None:
    service = yaml.safe_load((ROOT / "clusters/kuberay/rayservice.yaml").read_text())
    config = ServeDeploySchema.model_validate(yaml.safe_load(service["spec"]["serveConfigV2"]))
    assert config.applications[0].import_path == "rlsched.serve.app:build"


def test_what_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    held = {}
    for name in KINDS:
        found, _ = check(Path("clusters") / name, refusal, served)
        assert found is not None
        held[name] = found.holds
    assert held["aws.yaml"] == "aws: a head, 2 kinds of workers, at most 20 of them"
    assert held["on-prem.yaml"] == "local: a head, 3 workers"
    assert held["kuberay/raycluster.yaml"] == "RayCluster rlsched (2 groups, 2 to 12 workers)"
    assert held["compose.yaml"] == "2 services: head, worker"
    assert held["slurm.sh"] == "3 nodes for 08:00:00"
