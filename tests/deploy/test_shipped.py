"""Every cluster file that is shipped is right, and is what it is meant to be."""

from __future__ import annotations

import copy
import re
import shlex
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import cli as ray_commands
from ray.serve.schema import ServeDeploySchema

from rlsched.cli.cluster import refusal, served
from rlsched.deploy.check import check
from rlsched.deploy.commands import refused

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
    assert held["compose.yaml"] == "3 services: head, worker, serve"
    assert held["slurm.sh"] == "3 nodes for 08:00:00"


def told(page: str) -> list[list[str]]:
    """Commands of `rlsched` and `ray` that a page tells to type, also those handed to other programs."""
    found = []
    for block in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line)
            for k, word in enumerate(words):
                if word == "rlsched" or (word == "ray" and k == 0):
                    found.append(words[k:])
                elif word.startswith("rlsched "):
                    found.append(word.split())
                elif word.endswith("slurm.sh"):
                    found.append(["rlsched", *words[k + 1 :]])
    return found


def test_what_the_page_tells_to_type_would_be_taken() -> None:
    commands = told((ROOT / "docs" / "guide" / "on-a-cluster.md").read_text("utf-8"))
    refusals = {
        shlex.join([program, *words]): refusal(words)
        if program == "rlsched"
        else refused(ray_commands, "ray", words)
        for program, *words in commands
    }
    assert len(refusals) > 15
    assert {command: why for command, why in refusals.items() if why is not None} == {}


def test_the_page_names_files_that_are_there() -> None:
    page = (ROOT / "docs" / "guide" / "on-a-cluster.md").read_text("utf-8")
    named = set(re.findall(r"clusters/[\w./-]+\.(?:yaml|sh)|clusters/Dockerfile", page))
    assert named == {f"clusters/{name}" for name in KINDS}
