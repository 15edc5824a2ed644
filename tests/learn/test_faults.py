"""Faults made on purpose: processes that are killed, hang or fail, a disk that is full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib import build as algorithms
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.supervisor import RunnersLostError
from rlsched.learn.watchdog import watchdog
from rlsched.scenario import Scenario

from .conftest import SMALL

pytestmark = pytest.mark.slow

SETTINGS = (
    *("sampling.envs_per_runner=4", "sampling.fragment=32", "ppo.minibatch=64", "appo.fragment=16"),
    *("dqn.learning_starts=64", "dqn.batch=32", "sampling.hung_seconds=8", "sampling.restarts=5"),
)
DISK_BYTES = 64 << 20
LEFT_BYTES = 200_000
"""Enough to begin with, and not for a checkpoint."""


@pytest.fixture
def engine(request: pytest.FixtureRequest, small: Scenario, ray_address: str) -> Iterator[RllibEngine]:
    algo, runners, *more = request.param
    feed = EpisodeFeed(small)
    settings = [*SETTINGS, f"algo={algo}", f"sampling.runners={runners}", *more]
    made = RllibEngine(make_config({}, "test", settings).resolve(feed.scenario), feed, 0)
    yield made
    made.stop()


def runners(engine: RllibEngine) -> dict[int, bool]:
    """Processes of the remote runners that answer, and which play episodes that the first ones did not."""
    group = engine.algorithm.env_runner_group
    actual = group.foreach_env_runner(
        lambda runner: (os.getpid(), bool(runner.salt)), local_env_runner=False, timeout_seconds=30
    )
    return dict(actual)


@pytest.mark.parametrize(
    ("engine", "faults"),
    [
        pytest.param(("ppo", 2), [signal.SIGKILL, signal.SIGSTOP], marks=pytest.mark.long),
        pytest.param(("appo", 1), [signal.SIGSTOP, signal.SIGKILL], marks=pytest.mark.long),
        pytest.param(("dqn", 1, "learners=1"), [signal.SIGKILL], marks=pytest.mark.long),
    ],
    indirect=["engine"],
)
def test_training_goes_on_without_a_runner_that_dies_or_hangs_until_another_is_there(
    engine: RllibEngine, faults: list[signal.Signals]
) -> None:
    before, now = 0, runners(engine)
    if not engine.algorithm.env_runner_group.num_remote_worker_restarts():
        assert not any(now.values())
    for fault in faults:  # the first before anything was played
        known = set(now)
        many, victim = len(now), next(iter(now))
        os.kill(victim, fault)
        deadline = time.monotonic() + 120
        while True:
            steps = engine.iterate().steps
            assert steps > before
            before = steps
            now = runners(engine)
            if len(now) == many and victim not in now:
                break
            assert time.monotonic() < deadline, "no runner took its place"
        assert all(replacement for process, replacement in now.items() if process not in known)
        assert engine.iterate().steps > before
        with pytest.raises(ProcessLookupError):
            os.kill(victim, 0)


class Failing(BatchedEnvRunner):
    """Plays one fragment in all."""

    played = 0

    def _sample(self, **kwargs: Any) -> Any:
        self.played += 1
        if self.played > 1:
            raise ArithmeticError("that was one too many")
        return super()._sample(**kwargs)


@pytest.fixture
def failing(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Failing is pickled whole: other processes do not know this file."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(algorithms, "BatchedEnvRunner", Failing)
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.long
@pytest.mark.parametrize("engine", [("ppo", 2, "sampling.restarts=1")], indirect=True)
def test_runners_that_fail_again_and_again_end_the_run_with_their_reason(
    failing: None, engine: RllibEngine
) -> None:
    def play() -> None:
        while True:
            engine.iterate()

    with (
        pytest.raises(RunnersLostError, match=r"(?s)sampling\.restarts.*that was one too many"),
        watchdog(3, "to notice"),
    ):
        play()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("may not mount a disk that could be filled")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.long
def test_a_full_disk_ends_the_run_with_a_checkpoint_that_loads(
    disk: Path, ray_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = disk / "run"
    words = ["train", "--scenario", "lublin-256", "--out", str(out)]
    for setting in (*SETTINGS, *SMALL, "validation.every=1", "validation.episodes=2"):
        words += ["--set", setting]
    assert main([*words, "--steps", "256"]) == 0
    saved = RunFolder(out).latest()
    assert saved is not None
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - LEFT_BYTES))
    again = ["train", "--resume", "--out", str(out), "--steps", "1024"]
    assert main(again) == 1
    output = capsys.readouterr().err
    assert "No space left on device" in output
    assert f"resume from its last checkpoint: rlsched train --resume --out {out}" in output
    remaining = RunFolder(out).latest()
    assert remaining == saved
    load_policy(remaining[0])
    filler.unlink()
    assert main(again) == 0
    after = RunFolder(out).latest()
    assert after is not None
    assert after[1].steps >= 1024
