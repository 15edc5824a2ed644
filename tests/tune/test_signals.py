"""A sweep that a signal ends, run as a program."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from rlsched.tune.folder import SweepFolder

from ..processes import Command
from .conftest import write

pytestmark = pytest.mark.long


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_ends_in_order(number: signal.Signals, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["base"]["steps"] = 10**7
    folder = SweepFolder(tmp_path / "sweep")
    sweep = Command(tmp_path, "tune", write(tmp_path / "sweep.yaml", tiny), "--out", folder.path)

    def trained() -> bool:
        return any(trial.run_folder(0).latest() is not None for trial in folder.trials())

    try:
        sweep.until(trained, "a checkpoint")
        assert sweep.end(number) == 130
    finally:
        sweep.kill()
    lines = sweep.err.splitlines()
    assert "ppo.learning_rate=0.001 starts with seeds 0, 1" in lines
    assert "stopping trials, which can be resumed; Ctrl-C again ends them now" in lines
    assert lines[-1] == "interrupted"
    for wrong in ("Traceback", "***", "Error", "Exception"):
        assert wrong not in sweep.err
    assert f"resume       rlsched tune --resume --out {folder.path}" in sweep.out.splitlines()
    assert not folder.stopping.exists()
    for trial in folder.trials():
        latest = trial.run_folder(0).latest()
        if latest is not None:  # of the last iteration
            assert str(latest[1].steps) == trial.run_folder(0).rows()[-1]["steps"]
