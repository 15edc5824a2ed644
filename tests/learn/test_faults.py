"""Faults made on purpose: processes that are killed or hang, a disk that is full, waits without an end."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn import algorithms
from rlsched.learn.config import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.guard import RunnersLostError
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib import RllibEngine
from rlsched.learn.runner import BatchedEnvRunner
from rlsched.learn.watchdog import StalledError, watchdog
from rlsched.scenario import Scenario

from .conftest import SMALL

pytestmark = pytest.mark.slow

SETTINGS = (
    *("sampling.envs_per_runner=4", "sampling.fragment=32", "ppo.minibatch=64", "appo.fragment=16"),
    *("dqn.learning_starts=64", "dqn.batch=32", "sampling.hung_seconds=8", "sampling.restarts=2"),
)
DISK_BYTES = 64 << 20
LEFT_BYTES = 200_000
"""Enough to begin with, and not for a checkpoint."""


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def engine(request: pytest.FixtureRequest, small: Scenario, session: None) -> Iterator[RllibEngine]:
    algo, runners = request.param
    feed = EpisodeFeed(small)
    simulated = small.model_copy(update={"cluster": feed.source.cluster})
    settings = [*SETTINGS, f"algo={algo}", f"sampling.runners={runners}"]
    made = RllibEngine(simulated, make_config({}, "test", settings).settled(simulated), feed, 0)
    yield made
    made.stop()


def runners(engine: RllibEngine) -> dict[int, bool]:
    """Processes of the remote runners that answer, and which play episodes that the first ones did not."""
    group = engine.algorithm.env_runner_group
    found = group.foreach_env_runner(
        lambda runner: (os.getpid(), bool(runner.salt)), local_env_runner=False, timeout_seconds=30
    )
    return dict(found)


@pytest.mark.parametrize(
    ("engine", "ended_by"),
    [
        (("ppo", 2), signal.SIGKILL),
        (("appo", 1), signal.SIGKILL),
        (("dqn", 2), signal.SIGKILL),
        (("ppo", 2), signal.SIGSTOP),
        (("appo", 1), signal.SIGSTOP),
    ],
    indirect=["engine"],
)
def test_training_goes_on_without_a_runner_that_dies_or_hangs_until_another_is_there(
    engine: RllibEngine, ended_by: signal.Signals
) -> None:
    for _ in range(2):
        before = engine.iterate().steps
    first = runners(engine)
    assert not any(first.values())
    victim = next(iter(first))
    os.kill(victim, ended_by)
    deadline = time.monotonic() + 120
    while True:
        steps = engine.iterate().steps
        assert steps > before
        before = steps
        now = runners(engine)
        if len(now) == len(first) and victim not in now:
            break
        assert time.monotonic() < deadline, "no runner took its place"
    assert any(now.values())
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
def failing(session: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Failing is pickled whole: other processes do not know this file."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(algorithms, "BatchedEnvRunner", Failing)
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize("engine", [("ppo", 2), ("appo", 1)], indirect=True)
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


@ray.remote(num_cpus=0)
def hang() -> None:
    """Something that another process never comes back from."""
    time.sleep(60)


def wait_for_ray() -> None:
    """Waits for that process."""
    ray.get(hang.remote())


@pytest.mark.parametrize(
    "waits", [lambda: time.sleep(60), lambda: queue.Queue[int]().get(timeout=60), wait_for_ray]
)
def test_the_watchdog_ends_a_wait(waits: Callable[[], None], session: None) -> None:
    began = time.monotonic()
    with (
        pytest.raises(StalledError, match="iteration 3 took more than"),
        watchdog(0.02, "iteration 3"),
    ):
        waits()
    assert time.monotonic() - began < 30
    with pytest.raises(KeyboardInterrupt), watchdog(1, "this"):
        raise KeyboardInterrupt  # of somebody at the keyboard
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def listen_late() -> None:
    """Swallows what ends a wait, once."""
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(60)


def wait_inside() -> None:
    """Waits under a watchdog, and goes on waiting without."""
    with pytest.raises(StalledError, match="inner"), watchdog(0.01, "inner"):
        listen_late()
    time.sleep(60)


def test_the_watchdog_barks_again_where_nobody_listened() -> None:
    with pytest.raises(StalledError, match="outer"), watchdog(0.2, "outer"):
        wait_inside()


def test_the_watchdog_lets_be_what_is_in_time() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for minutes in (0.005, None):
        with watchdog(minutes, "this"):
            time.sleep(0.1)
        time.sleep(0.3)
    assert signal.getsignal(signal.SIGALRM) is before


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


def test_a_full_disk_ends_the_run_with_a_checkpoint_that_loads(disk: Path) -> None:
    out = disk / "run"
    words = [sys.executable, "-m", "rlsched", "train", "--scenario", "lublin-256", "--out", str(out)]
    for setting in (*SETTINGS, *SMALL, "validation.every=1", "validation.episodes=2"):
        words += ["--set", setting]
    words += ["--steps", "256"]
    whole = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert whole.returncode == 0, whole.stderr
    kept = RunFolder(out).latest()
    assert kept is not None
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - LEFT_BYTES))
    again = [sys.executable, "-m", "rlsched", "train", "--resume", "--out", str(out), "--steps", "1024"]
    full = subprocess.run(again, capture_output=True, text=True, timeout=200, check=False)
    assert full.returncode == 1, full.stderr
    assert "No space left on device" in full.stderr
    assert f"go on from its last checkpoint: rlsched train --resume --out {out}" in full.stderr
    left = RunFolder(out).latest()
    assert left == kept
    load_policy(left[0])
    filler.unlink()
    freed = subprocess.run(again, capture_output=True, text=True, timeout=200, check=False)
    assert freed.returncode == 0, freed.stderr
    after = RunFolder(out).latest()
    assert after is not None
    assert after[1].steps >= 1024
