"""Running the command line in this process, and small traces to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlsched.cli.main import main
from rlsched.workloads import swf
from rlsched.workloads.lublin import LublinModel

JOBS, PROCESSORS = 300, 64


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


Run = Callable[..., Outcome]


@pytest.fixture
def rlsched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`rlsched("simulate", "--scenario", ...)`."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 300 jobs on 64 processors."""
    path = tmp_path_factory.mktemp("traces") / "small.swf"
    jobs = LublinModel(load=1.0).draw(np.random.default_rng(3), JOBS, PROCESSORS)
    swf.write(path, jobs, processors=PROCESSORS)
    return path
