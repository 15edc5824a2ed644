"""Programs that check files where they are installed; here substitutes are on the PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.deploy import findings

from .conftest import ROOT, CheckText, check_file

COMPOSE = "services:\n  a: {image: 'a:1', depends_on: [b]}\n"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put shell scripts on the PATH, before all other programs."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_findings_of_docker_compose_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_text: CheckText
) -> None:
    refusal = 'echo \'service "a" depends on undefined service "b"\' >&2; exit 1'
    install(
        tmp_path,
        monkeypatch,
        docker=f"case $2 in version) exit 0 ;; esac; echo $* > {tmp_path}/call; {refusal}",
    )
    (line,) = check_text("compose.yaml", COMPOSE)
    assert line == 'docker compose refuses it: service "a" depends on undefined service "b"; correct the file'
    call = (tmp_path / "call").read_text()
    assert call == f"compose -f {tmp_path}/compose.yaml config --quiet --no-interpolate\n"


def test_missing_programs_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("rlsched.deploy.findings.shutil.which", lambda name: None)
    reports = [check_file(ROOT / "clusters" / name) for name in ("compose.yaml", "slurm.sh")]
    assert [report.problems for report in reports] == [[], []]
    assert [report.unchecked for report in reports] == [
        ["docker is not installed: skipped"],
        ["bash is not installed: skipped", "shellcheck is not installed: skipped"],
    ]


def test_docker_without_compose_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, docker="exit 125")
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    assert check_file(tmp_path / "compose.yaml").unchecked == ["docker compose is not installed: skipped"]


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, docker="exec sleep 60")
    monkeypatch.setattr(findings, "TIMEOUT_S", 0.2)
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    report = check_file(tmp_path / "compose.yaml")
    assert report.unchecked == ["docker takes more than 0 s: skipped"]


def test_findings_of_shellcheck_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_text: CheckText
) -> None:
    comment = '[{"line": 7, "code": 2086, "message": "Double quote"}]'
    install(tmp_path, monkeypatch, shellcheck=f"echo '{comment}'")
    assert check_text("slurm.sh", (ROOT / "clusters/slurm.sh").read_text()) == [
        "line 7: Double quote (SC2086); correct it"
    ]
