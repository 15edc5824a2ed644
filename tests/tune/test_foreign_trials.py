"""Trials of another user in the folder of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched import signatures
from rlsched.errors import BadInputError
from rlsched.learn.checkpoints import PICKLED, Standing
from rlsched.learn.folder import RunFolder
from rlsched.tune.folder import SweepFolder
from rlsched.tune.launch import check_checkpoints, run_sweep
from rlsched.tune.sweep import Sweep


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """A sweep's folder with one checkpoint of another user, whose trial has no point."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other-user"))

    def write(path: Path) -> None:
        (path / PICKLED).mkdir()
        (path / PICKLED / "state.pkl").write_bytes(b"")

    run = RunFolder(tmp_path / "sweep" / "trials" / "0a1b2c3d4e" / "seed-0")
    run.checkpoints.save(Standing(iteration=1), write)
    assert signatures.key_files()[0].is_file()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    return SweepFolder(tmp_path / "sweep")


def test_a_new_sweep_refuses_them(foreign: SweepFolder) -> None:
    with pytest.raises(BadInputError, match="sweep: holds trials of no sweep; name another --out folder"):
        foreign.check_free()


def test_a_resumed_sweep_checks_all_checkpoints(foreign: SweepFolder) -> None:
    with pytest.raises(BadInputError, match=r"000001: has no manifest that this user signed"):
        check_checkpoints(foreign, trust=False)
    check_checkpoints(foreign, trust=True)
    (foreign.path / "trials" / "0a1b2c3d4e" / "seed-0" / "done").touch()  # a completed training is not read
    check_checkpoints(foreign, trust=False)


def test_settings_that_were_edited_are_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    folder, sweep = SweepFolder(tmp_path / "sweep"), Sweep.model_validate(tiny)
    folder.create(sweep)
    folder.check_settings()
    file = folder.path / "sweep.yaml"
    file.write_text(file.read_text().replace("- 0\n", "- 7\n", 1))
    assert folder.read() != sweep
    with pytest.raises(BadInputError, match=r"sweep.yaml: was edited since it was written; undo that"):
        run_sweep(folder.read(), folder, lambda *_: None, resume=True, address=None)
