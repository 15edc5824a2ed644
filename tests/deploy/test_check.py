"""How the kind of a file is recognised, and faults that hold for every kind of YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import ROOT, CheckText, check_file

POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - {name: a, image: "a:1"}
"""
KINDS = "name a file of ray up, Kubernetes, Slurm, Docker or compose"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", f"is of no known kind; {KINDS}: these have"),
        ("a: 1\n", f"is of no known kind; {KINDS}: these have"),
        ("- a\n", f"is of no known kind; {KINDS}: these have"),
        ("#!/bin/bash\necho\n", f"is a script without #SBATCH lines; {KINDS}"),
        ("a: {b: [1\n", "expected ',' or ']', but got '<stream end>', line 2; correct the YAML"),
        ("a:\n  b: 1\n  b: 2\n", "key 'b' stands twice, line 3; correct the YAML"),
        ("kind: Pod\non: 1\n", "0: key True is not text; quote it"),
    ],
)
def test_unknown_kinds_and_broken_yaml_are_refused(text: str, line: str, check_text: CheckText) -> None:
    (finding,) = check_text("file", text)
    assert finding.startswith(line)


def test_a_missing_file(tmp_path: Path) -> None:
    report = check_file(tmp_path / "none.yaml")
    assert report.kind is None
    assert [str(problem) for problem in report.problems] == [f"{tmp_path}/none.yaml: no such file; {KINDS}"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FROM python:3.11-slim\n", "Dockerfile"),
        ("# made\nARG TAG=3.11-slim\nFROM python:${TAG}\n", "Dockerfile"),
        ("services:\n  a: {image: 'a:1'}\n", "compose"),
        (POD, "Kubernetes"),
        ("---\n# nothing\n---\n" + POD, "Kubernetes"),
    ],
)
def test_kinds_are_recognised_by_content(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "a").write_text(text)
    report = check_file(tmp_path / "a")
    assert (report.kind, report.problems) == (kind, [])


@pytest.mark.parametrize(
    ("second", "line"),
    [
        (POD.replace("containers", "container"), "spec.container: unknown key; did you mean 'containers'?"),
        ("a: 1\n", "'apiVersion' is a required property; add it"),
        ("- a\n", "['a'] is not of type 'object'; use object"),
    ],
)
def test_the_faulty_document_of_several_is_named(second: str, line: str, check_text: CheckText) -> None:
    (finding, *_) = check_text("two.yaml", f"{POD}---\n{second}")
    assert finding.startswith(f"document 2: {line}")


def test_kinds_without_a_schema_are_listed_as_unchecked(tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text("apiVersion: kueue.x-k8s.io/v1\nkind: LocalQueue\nmetadata: {name: a}\n")
    report = check_file(path)
    assert report.problems == []
    assert report.unchecked == ["kueue.x-k8s.io/v1 LocalQueue: has no schema here"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("image:", "imag:", "spec.containers.0: 'image' is a required property; add it"),
        ('"a:1"', '"a:1", env: [{name: A, value: 1}]', "spec.containers.0.env.0.value: 1 is not of type"),
        ('"a:1"', '"a:1", ports: [{containerPort: 0}]', "spec.containers.0.ports.0.containerPort: 0 is less"),
        ('"a:1"', '"a:1", ports: 80', "spec.containers.0.ports: 80 is not of type 'array'; use array"),
        ('{name: a, image: "a:1"}', '{image: "a:1"}', "spec.containers.0: 'name' is a required property"),
        ("spec:\n", "spec:\n  volumes: [{name: a}]\n", "spec.volumes.0: {'name': 'a'} does not have enough"),
        (
            "spec:\n",
            "spec:\n  restartPolicy: never\n",
            "spec.restartPolicy: 'never' is not valid; did you mean",
        ),
        ("metadata: {name: a}", "metadata: {}", "metadata: 'name' is a required property; add it"),
        ("apiVersion: v1\n", "", "'apiVersion' is a required property"),
    ],
)
def test_pods_are_checked(old: str, new: str, line: str, check_text: CheckText) -> None:
    assert old in POD
    assert line in "\n".join(check_text("pod.yaml", POD.replace(old, new)))


def test_keys_of_a_newer_operator_are_named_and_no_error(tmp_path: Path, check_text: CheckText) -> None:
    text = (ROOT / "clusters/kuberay/raycluster.yaml").read_text()
    text = text.replace("mode: token", "mode: token, secretName: ours, rotateHours: 3")
    path = tmp_path / "cluster.yaml"
    path.write_text(text.replace("spec:\n", "spec:\n  networkPolicy: {}\n", 1))
    report = check_file(path)
    assert report.problems == []
    assert report.unchecked == [
        "spec.networkPolicy: not in KubeRay 1.5",
        "spec.authOptions.rotateHours: not in KubeRay 1.5",
    ]
    # A key that resembles a known one is misspelt. Kubernetes' own kinds have complete schemas.
    (line,) = check_text("a", text.replace("secretName", "secretNam"))
    assert line == "spec.authOptions.secretNam: unknown key; did you mean 'secretName'?"
    assert len(check_text("a", POD.replace("spec:", "spec:\n  networkPolicy: {}"))) == 1


def test_short_options_of_sbatch_are_read(check_text: CheckText) -> None:
    text = (ROOT / "clusters/slurm.sh").read_text()
    short = text.replace("#SBATCH --nodes=3", "#SBATCH -N 3 -p gpu").replace("--time=08:00:00", "-t8h")
    assert check_text("slurm.sh", short) == ["#SBATCH.time: '8h' is not valid; write it as 08:00:00"]


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 200_000 + "FROM a",
        "FROM a:1\nCOPY none" + " " * 200_000 + ".",
        "#!/bin/bash\n#SBATCH -N\n" + "${" * 100_000 + "ray[" * 50_000,
        "#!/bin/bash\n#SBATCH --\n" + "\0\ud7ff" * 50_000,
        "services: {a: {image: 'a:1', command: \"ray '\\ud800 start\"}}",
        'cluster_name: a\nprovider: {type: aws, region: "\\0"}\nfile_mounts: {~/a: ~nobody-0/\0}'.replace(
            "\0", ""
        ),
    ],
    ids=["lines", "spaces", "brackets", "no text", "surrogate", "no home"],
)
def test_hostile_files_are_refused_soon(text: str, check_text: CheckText) -> None:
    assert check_text("file", text)
