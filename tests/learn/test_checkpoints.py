"""Checkpoints that were damaged, or that somebody else wrote, and runs that two processes train at once."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rlsched import signatures
from rlsched.cli.main import main
from rlsched.errors import BadInputError
from rlsched.learn.checkpoints import (
    MANIFEST,
    STANDING,
    Checkpoints,
    Standing,
    damage,
    private_copy,
)
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.plan import plan
from rlsched.scenario import Scenario

from .conftest import SMALL


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # with no key in it either
    return folder


@pytest.fixture
def two(home: Path, tmp_path: Path) -> Checkpoints:
    """Two checkpoints."""
    made = Checkpoints(tmp_path / "checkpoints")
    for iteration in (1, 2):
        made.save(Standing(iteration=iteration), write)
    return made


def write(path: Path) -> None:
    (path / "rllib" / "learner_group").mkdir(parents=True)
    (path / "rllib" / "learner_group" / "state.pkl").write_bytes(b"weights")


def test_what_is_whole_is_gone_on_from(two: Checkpoints) -> None:
    assert two.intact(trust=False) == ((two.path / "000002", Standing(iteration=2)), [])
    assert Checkpoints(two.path / "none").intact(trust=False) == (None, [])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


STATE = "rllib/learner_group/state.pkl"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "folder": (lambda path: shutil.rmtree(path / "rllib" / "learner_group"), f"{STATE} is missing"),
    "file": (lambda path: (path / STATE).unlink(), f"{STATE} is missing"),
    "byte": (lambda path: (path / STATE).write_bytes(b"Weights"), f"{STATE} has changed"),
    "more": (lambda path: (path / "rllib" / "more.pkl").touch(), "rllib/more.pkl is not in its manifest"),
    "standing": (lambda path: cut(path / STANDING), "cannot be read ("),
    "no standing": (lambda path: (path / STANDING).unlink(), "standing.json is missing"),
    "link": (lambda path: relinked(path / STATE, "nowhere"), "state.pkl is missing"),
    "link to a folder": (lambda path: relinked(path / STATE, "."), "cannot be read ("),
    "deep": (lambda path: void((path / MANIFEST).write_text("[" * 100_000)), "cannot be read ("),
    "files": (lambda path: void((path / MANIFEST).write_text('{"files": []}')), "cannot be read ("),
    "manifest": (lambda path: cut(path / MANIFEST), "cannot be read ("),
    "no files": (lambda path: void((path / MANIFEST).write_text("{}")), "cannot be read ('files')"),
    "list": (lambda path: void((path / MANIFEST).write_text("[1]")), "cannot be read ("),
    "numbers": (lambda path: void((path / MANIFEST).write_text('{"files": {"a": 1}}')), "cannot be read ("),
}


def relinked(path: Path, target: str) -> None:
    """In the place of a file there is a link."""
    path.unlink()
    path.symlink_to(target)


def void(_: object) -> None:
    """For functions that return nothing."""


@pytest.mark.parametrize("kind", DAMAGES)
def test_the_one_before_a_damaged_one_is_gone_on_from(two: Checkpoints, kind: str) -> None:
    harm, problem = DAMAGES[kind]
    newest = two.path / "000002"
    harm(newest)
    actual, problems = two.intact(trust=False)
    assert actual == (two.path / "000001", Standing(iteration=1))
    assert len(problems) == 1
    assert problems[0].startswith(f"checkpoint {newest} is damaged: {problem}")
    harm(two.path / "000001")
    with pytest.raises(BadInputError, match=r"holds no whole checkpoint: checkpoint .*; begin another run"):
        two.intact()


def test_damaged_ones_are_set_aside(two: Checkpoints) -> None:
    """Else they would be taken for the newest, and for one of those that are kept."""
    cut(two.path / "000002" / STATE)
    two.set_aside(1)
    assert two.latest() == (two.path / "000001", Standing(iteration=1))
    two.save(Standing(iteration=2), write)
    assert sorted(path.name for path in two.path.iterdir()) == ["000001", "000002", "damaged-000002"]
    assert two.intact(trust=False)[1] == []


def test_what_is_read_is_a_copy_that_was_checked(two: Checkpoints) -> None:
    newest, replacement = two.path / "000002", two.path / "another"
    write(replacement)
    with private_copy(newest) as copy:
        (newest / STATE).write_bytes(b"Weights")  # by somebody who may write there
        assert (copy / STATE).read_bytes() == b"weights"
    assert not copy.exists()
    for path, problem in ((newest, "state.pkl has changed"), (replacement, "standing.json is missing")):
        with pytest.raises(BadInputError, match=rf"has changed since it was checked \(.*{problem}"):
            private_copy(path).__enter__()


def test_a_standing_that_was_cut_off_is_passed_over(two: Checkpoints) -> None:
    cut(two.path / "000002" / STANDING)
    assert two.latest() == (two.path / "000001", Standing(iteration=1))


def foreign(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user wrote them."""
    monkeypatch.setenv("HOME", str(home.parent / "another"))


def older(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without manifests wrote them."""
    for path in two.path.iterdir():
        (path / MANIFEST).unlink()


def forged(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changed a file and its checksum."""
    file = two.path / "000002" / MANIFEST
    (two.path / "000002" / STATE).write_bytes(b"Weights")
    content = json.loads(file.read_text())
    content["files"][STATE] = signatures.sha256(b"Weights").hexdigest()
    file.write_text(json.dumps(content))
    assert damage(file.parent) is None


def unsigned(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote them had no home."""
    file = two.path / "000002" / MANIFEST
    file.write_text(json.dumps(json.loads(file.read_text()) | {"signature": None}))


def known(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others could have read the key."""
    signatures.key_files()[0].chmod(0o640)


def shared(two: Checkpoints, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is another user's."""
    changed = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: changed + 1)


@pytest.mark.parametrize("writer", [foreign, older, forged, unsigned, known, shared])
def test_one_that_this_user_did_not_write_is_refused_unless_trusted(
    two: Checkpoints,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    writer: Callable[[Checkpoints, Path, pytest.MonkeyPatch], None],
) -> None:
    file = signatures.key_files()[0]
    assert (file.stat().st_mode & 0o777, len(file.read_bytes())) == (0o600, 32)
    writer(two, home, monkeypatch)
    with pytest.raises(BadInputError, match=r"000002: has no manifest that this user signed .*--trust-check"):
        two.intact(trust=False)
    assert two.intact(trust=True)[0] == (two.path / "000002", Standing(iteration=2))


def test_without_a_home_the_key_is_in_a_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As what numba compiles is: a user without a home can go on, too."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert signatures.sign(b"content") is None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    signature = signatures.sign(b"content")
    assert signature is not None
    assert signatures.is_signed(b"content", signature)
    assert not signatures.is_signed(b"another", signature)
    (tmp_path / f"rlsched-{os.getuid()}").chmod(0o777)  # anybody may have put one there
    assert not signatures.is_signed(b"content", signature)


class Harmful:
    """What a pickle may do."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_no_pickle_of_a_foreign_run_is_read(
    home: Path, tmp_path: Path, small: Scenario, tiny: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before Ray is started."""
    folder, harm = RunFolder(tmp_path / "run"), tmp_path / "harm"
    planned = plan(small, tiny, folder, resume=False)
    folder.create(planned.scenario, planned.config, planned.inputs)

    def plant(path: Path) -> None:
        (path / "rllib").mkdir()
        (path / "rllib" / "algorithm_state.pkl").write_bytes(pickle.dumps(Harmful(harm)))

    folder.checkpoints.save(Standing(iteration=1, steps=1), plant)
    signatures.key_files()[0].unlink()
    assert main(["train", "--resume", "--steps", "999", "--out", str(folder.path)]) == 2
    assert "add --trust-checkpoint if you trust" in capsys.readouterr().err
    assert not harm.exists()


# whole runs, by the engine that is fast


SEARCH = ("search.population=4", "search.episodes=1")


def command(out: Path, steps: int = 1500) -> list[str]:
    settings = [*SMALL, "validation.episodes=4", "validation.every=1", *SEARCH]
    words = ["train", "--scenario", "lublin-256", "--algo", "priority_search", "--steps", str(steps)]
    return [*words, "--out", str(out), *(word for setting in settings for word in ("--set", setting))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(command(folder)) == 0
    return folder


def resume(out: Path, steps: int = 3000) -> list[str]:
    return ["train", "--resume", "--out", str(out), "--steps", str(steps)]


def test_a_run_goes_on_from_an_earlier_checkpoint_and_says_so(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(run, tmp_path / "run")
    before, newest = RunFolder(tmp_path / "run").checkpoints._numbered()
    cut(newest / STANDING)
    with (tmp_path / "run" / "metrics.csv").open("r+b") as file:  # a damaged byte is no obstacle
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff")
    assert main(resume(tmp_path / "run")) == 0
    assert f"checkpoint {newest} is damaged: cannot be read" in caplog.text
    assert "resuming from an earlier one" in caplog.text
    numbers = [int(row["iteration"]) for row in RunFolder(tmp_path / "run").rows()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > int(newest.name) > int(before.name)


def test_a_run_at_its_end_says_so(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    before = RunFolder(tmp_path / "run").latest()
    reported = tmp_path / "told.json"
    capsys.readouterr()
    assert main([*resume(tmp_path / "run", steps=1500), "--json", str(reported)]) == 0
    assert "at its end already: nothing was trained; give more with --steps N" in capsys.readouterr().out
    assert json.loads(reported.read_text())["trained"] is False
    assert RunFolder(tmp_path / "run").latest() == before


def test_settings_that_were_edited_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run")
    file = tmp_path / "run" / "train.yaml"
    text = file.read_text()
    assert yaml.safe_load(text)["seed"] == 0
    file.write_text(text.replace("\nseed: 0\n", "\nseed: 1\n"))
    assert main(resume(tmp_path / "run")) == 2
    assert f"{file}: was edited since it was written; undo that" in capsys.readouterr().err
    file.write_text(text[: text.index("# to go on")])
    assert main(resume(tmp_path / "run")) == 2
    file.write_text(text)
    scenario = tmp_path / "run" / "scenario.yaml"
    was = scenario.read_text()
    scenario.write_text(was.replace("tick_s: 1\n", "tick_s: 2\n"))
    assert main(resume(tmp_path / "run")) == 2
    assert f"{scenario}: was edited since it was written; undo that" in capsys.readouterr().err
    scenario.write_text(was)
    file.write_text(text[: text.index("# to go on")])
    # Older versions wrote neither this line nor manifests.
    for manifest in (tmp_path / "run" / "checkpoints").glob("*/manifest.json"):
        manifest.unlink()
    RunFolder(tmp_path / "run").check_settings()


def test_a_search_without_a_key_goes_on(run: Path, home: Path, tmp_path: Path) -> None:
    """What it keeps runs no code."""
    shutil.copytree(run, tmp_path / "run")
    assert main(resume(tmp_path / "run")) == 0


def test_a_new_run_in_a_folder_that_is_being_trained_is_refused(
    small: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with RunFolder(out).locked():
        assert main(command(out)) == 2
        (out / "process.json").write_text("{")
        assert main(command(out)) == 2
    output = capsys.readouterr().err
    assert f"{out}: is being trained by process {os.getpid()} on host" in output
    assert f"{out}: is being trained by another process; wait for it" in output
    assert not (out / "train.yaml").exists()
