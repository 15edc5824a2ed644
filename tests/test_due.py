"""Long tests in CI: what was changed runs, and in four turns everything does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.due import PARTS, changed_lately, folder_of, folders_that_test, turn_of


def test_paths_name_the_folders_that_test_them() -> None:
    paths = ["rlsched/serve/http.py", "tests/learn/test_pid.py", "docs/hpc.md", "README.md", "Makefile", ""]
    assert folders_that_test(paths) == {"serve", "learn", "docs"}
    assert folders_that_test(["rlsched/jobs.py", "clusters/gcp.yaml"]) == {"clusters"}


def test_a_test_is_known_by_its_folder() -> None:
    assert folder_of("tests/serve/slurm/test_changed.py::test_it[a]") == "serve"
    assert folder_of("tests/test_docs.py::test_it") == "docs"


def test_every_file_has_its_turn_and_all_of_it_at_once() -> None:
    names = [f"tests/learn/test_{k}.py" for k in range(60)]
    assert {turn_of(name) for name in names} == set(range(PARTS))
    assert all(turn_of(f"{name}::one") == turn_of(f"{name}::two[a::b]") for name in names)


def test_what_was_changed_lately_is_of_the_newest_commits(tmp_path: Path) -> None:
    def git(*words: str, date: str = "2026-01-02T12:00:00+0000") -> None:
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
        dates = {"GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, env=who | dates)

    git("init")
    for number, hour in enumerate((0, 13, 20)):
        (tmp_path / f"{number}.txt").touch()
        git("add", ".")
        git("commit", "-m", "x", date=f"2026-01-02T{hour:02}:00:00+0000")
    assert sorted(changed_lately(tmp_path)) == ["1.txt", "2.txt"]


def test_without_a_repository_nothing_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_lately(tmp_path) == []
    monkeypatch.setenv("PATH", "")
    assert changed_lately(tmp_path) == []
