"""Which kind a file is of, and what YAML of every kind is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.cli.cluster import refusal, served
from rlsched.deploy.check import check

POD = """apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
    - {name: a, image: "a:1"}
"""


def lines(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    _, problems = check(path, refusal, served)
    return [str(problem).removeprefix(f"{path}: ") for problem in problems]


KINDS = "name a file of ray up, Kubernetes, Slurm, Docker or compose"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", f"is empty; {KINDS}"),
        ("a: 1\n", f"holds a; {KINDS}: these have cluster_name, kind, services or #SBATCH"),
        ("- a\n", f"holds list; {KINDS}: these have cluster_name, kind, services or #SBATCH"),
        ("#!/bin/bash\necho\n", f"is a script without #SBATCH lines; {KINDS}"),
        ("a: {b: [1\n", "line 2: expected ',' or ']', but got '<stream end>'; mend the YAML"),
        ("a:\n  b: 1\n  b: 2\n", "line 3: key 'b' stands twice; mend the YAML"),
        ("kind: Pod\non: 1\n", "line 2: key 'on' is no text: quote it; mend the YAML"),
    ],
)
def test_what_is_none_of_them_is_refused(tmp_path: Path, text: str, line: str) -> None:
    assert lines(tmp_path, "file", text) == [line]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    found, problems = check(tmp_path / "none.yaml", refusal, served)
    assert found is None
    assert [str(problem) for problem in problems] == [f"{tmp_path}/none.yaml: no such file; {KINDS}"]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a", "FROM python:3.11-slim\n", "Dockerfile"),
        ("a", "# made\nARG TAG=3.11-slim\nFROM python:${TAG}\n", "Dockerfile"),
        ("a", "services:\n  a: {image: 'a:1'}\n", "compose"),
        ("a", POD.replace("NAME", "a"), "Kubernetes"),
        ("a", "---\n# nothing\n---\n" + POD.replace("NAME", "a"), "Kubernetes"),
    ],
)
def test_kinds_are_told_by_what_is_in_them(tmp_path: Path, name: str, text: str, kind: str) -> None:
    (tmp_path / name).write_text(text)
    found, problems = check(tmp_path / name, refusal, served)
    assert [str(problem) for problem in problems] == []
    assert found is not None
    assert found.kind == kind


def test_of_several_documents_the_wrong_one_is_named(tmp_path: Path) -> None:
    wrong = POD.replace("NAME", "second").replace("containers", "container")
    found = lines(tmp_path, "two.yaml", POD.replace("NAME", "first") + "---\n" + wrong)
    assert found == ["Pod second: spec.container: unknown key; did you mean 'containers'?"]


def test_names_stand_once(tmp_path: Path) -> None:
    text = POD.replace("NAME", "same")
    found = lines(tmp_path, "two.yaml", f"{text}---\n{text}")
    assert found == ["Pod same: stands twice in this file; name each its own"]


def test_what_is_no_manifest_among_manifests(tmp_path: Path) -> None:
    found = lines(tmp_path, "two.yaml", POD.replace("NAME", "a") + "---\na: 1\n")
    assert found == ["document 2 is no manifest; give it apiVersion and kind"]


def test_kinds_of_others_are_not_looked_into_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(
        "apiVersion: kueue.x-k8s.io/v1\nkind: LocalQueue\nmetadata: {name: a}\n"
    )
    found, problems = check(tmp_path / "queue.yaml", refusal, served)
    assert problems == []
    assert found is not None
    assert found.unchecked == ("LocalQueue a: kueue.x-k8s.io/v1 is of somebody else",)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("image:", "imag:", "spec.containers.0.imag: unknown key; did you mean 'image'?"),
        (
            '"a:1"',
            '"a:1", env: [{name: A, value: 1}]',
            "spec.containers.0.env.0.value: value 1; use text (quote it)",
        ),
        (
            '"a:1"',
            '"a:1", ports: [{containerPort: 0}]',
            "spec.containers.0.ports.0.containerPort: value 0; use 1 to 65535",
        ),
        ('"a:1"', '"a:1", ports: 80', "spec.containers.0.ports: value 80; use a list"),
        ('name: a, image: "a:1"', "name: a", "spec.containers.0.image: is missing; name one with its tag"),
        ('{name: a, image: "a:1"}', '{image: "a:1"}', "spec.containers.0.name: is missing; give it a value"),
        (
            "spec:\n",
            "spec:\n  volumes: [{name: a}]\n",
            "spec.volumes.0: 'a' says nothing of what it is; add emptyDir: {}",
        ),
        (
            "spec:\n",
            "spec:\n  restartPolicy: never\n",
            "spec.restartPolicy: value 'never'; did you mean 'Never'? use one of Always, Never, OnFailure",
        ),
        ("metadata: {name: a}", "metadata: {}", "metadata.name: is missing; give it a value"),
        ("apiVersion: v1\n", "", "apiVersion: is missing; give it a value"),
    ],
)
def test_pods_are_looked_into(tmp_path: Path, old: str, new: str, line: str) -> None:
    text = POD.replace("NAME", "a")
    assert old in text
    assert lines(tmp_path, "pod.yaml", text.replace(old, new)) == [line]


CLUSTER = Path(__file__).parents[2] / "clusters" / "kuberay" / "raycluster.yaml"


def test_keys_of_a_newer_operator_are_named_and_no_error(tmp_path: Path) -> None:
    text = CLUSTER.read_text().replace("mode: token", "mode: token, secretName: ours, rotateHours: 3")
    path = tmp_path / "cluster.yaml"
    path.write_text(text.replace("spec:\n", "spec:\n  networkPolicy: {}\n", 1))
    found, problems = check(path, refusal, served)
    assert problems == []
    assert found is not None
    (line,) = found.unchecked
    for key in ("spec.networkPolicy", "spec.authOptions.rotateHours"):
        assert key in line
    assert "secretName" not in line
    assert line.endswith("which KubeRay 1.5 does not have")
    # What is like a known key is misspelt, and Kubernetes' own kinds are known by its schemas.
    assert lines(tmp_path, "a", text.replace("secretName", "secretNam")) == [
        "spec.authOptions.secretNam: unknown key; did you mean 'secretName'? use one of mode, secretName"
    ]
    pod = POD.replace("NAME", "a").replace("spec:", "spec:\n  networkPolicy: {}")
    assert len(lines(tmp_path, "a", pod)) == 1


def test_a_job_by_the_clock_is_a_kind_of_kuberay(tmp_path: Path) -> None:
    text = "apiVersion: ray.io/v1\nkind: RayCronJob\nmetadata: {name: a}\nspec:\n  schedule: 0 3 * * *\n"
    assert lines(tmp_path, "a", text) == ["spec.jobTemplate: is missing; give it a value"]
    path = tmp_path / "whole"
    path.write_text(text + "  jobTemplate: {entrypoint: rlsched train}\n")
    found, problems = check(path, refusal, served)
    assert problems == []
    assert found is not None
    assert found.unchecked == ("RayCronJob a: its jobTemplate",)
