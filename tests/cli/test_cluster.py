"""`rlsched cluster check`, as a user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.cli.cluster import refusal

from .conftest import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_correct_files_are_reported(rlsched: Run) -> None:
    ran = rlsched("cluster", "check", "clusters/aws.yaml", "clusters/kuberay/rayjob-tune.yaml")
    assert ran.code == 0, ran
    assert ran.err == ""
    head, _, *rows = ran.out.splitlines()
    assert head.split() == ["file", "kind", "holds", "not", "checked"]
    assert rows[0].split()[:3] == ["clusters/aws.yaml", "ray", "up"]
    assert "RayJob rlsched-tune" in rows[1]


def test_every_problem_is_a_line(rlsched: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    text = Path("clusters/aws.yaml").read_text()
    wrong.write_text(text.replace("max_workers: 20", "max_worker: 20").replace("  type: aws", "  typ: aws"))
    ran = rlsched("cluster", "check", "clusters/gcp.yaml", wrong, tmp_path / "none")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.splitlines() == [
        f"error: {wrong}: max_worker: unknown key; did you mean 'max_workers'?",
        f"error: {wrong}: provider: 'type' is a required property; add it",
        f"error: {tmp_path}/none: no such file; name a file of ray up, Kubernetes, Slurm, Docker or compose",
    ]


def test_json_has_all_of_it(rlsched: Run, tmp_path: Path) -> None:
    ran = rlsched("cluster", "check", "clusters/slurm.sh", tmp_path / "none", "--json", "-")
    assert ran.code == 2
    assert ran.json["schema"] == 1
    right, wrong = ran.json["files"]
    assert (right["file"], right["kind"], right["problems"]) == ("clusters/slurm.sh", "Slurm", [])
    assert (wrong["kind"], wrong["problems"][0]["problem"]) == (None, "no such file")


def test_json_in_a_file(rlsched: Run, tmp_path: Path) -> None:
    ran = rlsched("cluster", "check", "clusters/compose.yaml", "--json", tmp_path / "found.json")
    assert ran.code == 0
    assert '"kind": "compose"' in (tmp_path / "found.json").read_text()
    assert "services: head, worker, serve" in ran.out


def test_without_files_it_says_what_is_wanted(rlsched: Run) -> None:
    ran = rlsched("cluster", "check")
    assert ran.code == 2
    assert ran.err == "error: Missing argument 'FILE...'; see rlsched cluster check --help\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("rlsched train --scenario green-10", None),
        ("rlsched tune tune_configs/horizon.yaml --address auto", None),
        ("rlsched --version", None),
        ("rlsched train --help", None),
        ("rlsched scenarios", None),
        ("rlsched dataset", "it names no command"),
        ("rlsched trian", "No such command 'trian'. Did you mean 'train', 'trace'?"),
        ("rlsched scenarios shw", "No such command 'shw'. Did you mean 'show'?"),
        ("rlsched train --resum", "No such option: --resum (Possible options: --address, --resume)"),
        ("rlsched train --minutes", "Option '--minutes' requires an argument"),
        ("ray start --prot 1", "No such option '--prot'. Did you mean '--port'?"),
    ],
)
def test_arguments_are_refused_with_a_reason(words: str, reason: str | None) -> None:
    assert refusal(words.split()) == reason
