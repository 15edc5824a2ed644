"""Every cluster file that is shipped is right, and is what it is meant to be."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rlsched.cli.cluster import refusal

from .conftest import ROOT, check_file

KINDS = {
    "Dockerfile": ("Dockerfile", "from python:3.11-slim"),
    "aws.yaml": ("ray up", "aws: head, cpu, gpu"),
    "compose.yaml": ("compose", "services: head, worker, serve"),
    "gcp.yaml": ("ray up", "gcp: head, cpu, gpu"),
    "kuberay/raycluster.yaml": ("Kubernetes", "RayCluster rlsched"),
    "kuberay/rayjob-train.yaml": ("Kubernetes", "RayJob rlsched-train"),
    "kuberay/rayjob-tune.yaml": ("Kubernetes", "RayJob rlsched-tune"),
    "kuberay/rayservice.yaml": ("Kubernetes", "RayService rlsched"),
    "kuberay/storage.yaml": ("Kubernetes", "PersistentVolumeClaim rlsched-shared"),
    "on-prem.yaml": ("ray up", "local: head and workers"),
    "slurm.sh": ("Slurm", "3 nodes for 08:00:00"),
}
NOT_CHECKED = {"Dockerfile.dockerignore", "make_schemas.py"}


def test_every_shipped_file_is_listed() -> None:
    folder = ROOT / "clusters"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {name for name in files if "__pycache__" not in name} == KINDS.keys() | NOT_CHECKED


@pytest.mark.parametrize("name", KINDS)
def test_it_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    report = check_file(Path("clusters") / name)
    assert [str(problem) for problem in report.problems] == []
    assert (report.kind, *report.summary) == KINDS[name]


PAGE = (ROOT / "docs" / "guide" / "on-a-cluster.md").read_text("utf-8")


def commands_of_page(page: str) -> list[list[str]]:
    """Commands of `rlsched` and `ray` on a page, also those that other programs run."""
    commands = []
    for block in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line)
            for k, word in enumerate(words):
                if word == "rlsched" or (word == "ray" and k == 0):
                    commands.append(words[k:])
                elif word.startswith("rlsched "):
                    commands.append(word.split())
                elif word.endswith("slurm.sh"):
                    commands.append(["rlsched", *words[k + 1 :]])
    return commands


def test_commands_of_the_guide_are_accepted() -> None:
    reasons = {shlex.join(words): refusal(words) for words in commands_of_page(PAGE)}
    assert len(reasons) > 15
    assert {command: reason for command, reason in reasons.items() if reason is not None} == {}


def test_the_guide_names_files_that_exist() -> None:
    named = set(re.findall(r"clusters/[\w./-]+\.(?:yaml|sh)|clusters/Dockerfile", PAGE))
    assert named == {f"clusters/{name}" for name in KINDS}
