"""What all tests share: the data folder, one Ray per worker, and how long each folder took.

Markers: `slow` needs Ray, a service or a process with torch, or takes several seconds; `long` takes minutes
by nature, or trains as the guides do, and runs in `make test-long`. Everything else is `make test-fast`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Under nohup SIGHUP is ignored, and behind & of a script SIGINT: what tests start would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("untimed", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("untimed")

os.environ.setdefault("RAY_worker_niceness", "0")  # else all other tests on these cores come first
# Two workers with a thread per core each would wait for each other: sums took four to seven times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
STARTED = time.monotonic()
SECONDS: dict[str, float] = defaultdict(float)
"""Folder of tests -> seconds that they and their fixtures took."""
TESTS: dict[str, set[str]] = defaultdict(set)
"""Folder of tests -> their names."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that no worker is left alone with one in the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    # Pages of docs, which lie beside the folders, are the longest.
    items.sort(key=lambda item: (item.path not in slow, len(item.path.parts)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a part of a test took."""
    folder = "/".join(Path(report.nodeid.partition("::")[0]).parts[:2])
    SECONDS[folder] += report.duration
    TESTS[folder].add(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line per folder, and the total."""
    if len(SECONDS) < 2:
        return
    terminalreporter.section("seconds per folder")
    for folder in sorted(SECONDS, key=lambda folder: -SECONDS[folder]):
        terminalreporter.write_line(f"{SECONDS[folder]:8.1f}  {len(TESTS[folder]):5,}  {folder}")
    total, count = sum(SECONDS.values()), sum(map(len, TESTS.values()))
    minutes, seconds = divmod(round(time.monotonic() - STARTED), 60)
    terminalreporter.write_line(f"{total:8.1f}  {count:5,}  in all, in {minutes} min {seconds} s")


@pytest.fixture(autouse=True)
def ray_is_for_slow_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray neither starts nor is used in a test of `make test-fast`."""
    if request.node.get_closest_marker("slow") is None and "ray" in sys.modules:
        monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("starts Ray: mark it slow"))
        monkeypatch.setattr("ray.is_initialized", lambda: False)  # that of slow tests may still run


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces and power series: RLSCHED_DATA, or ../shared/data beside the project."""
    sibling = ROOT.parent / "shared" / "data"
    folder = Path(os.environ.get("RLSCHED_DATA", sibling))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; RLSCHED_DATA names another one")
    return folder


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[None]:
    """Ends the Ray of this worker with its last test."""
    yield
    import ray

    ray.shutdown()


@pytest.fixture(scope="module")
def ray_address(shared_ray: None) -> str:
    """The one Ray of this worker, started where it does not run; its address.

    It has room for four processes, however few this machine runs at once.
    """
    import ray

    from rlsched.learn.rllib.session import start_ray

    if not ray.is_initialized():
        start_ray(num_cpus=4)
    address: str = ray.get_runtime_context().gcs_address
    return address


@pytest.fixture
def fresh_ray() -> Iterator[None]:
    """Shuts Ray down around a test that starts its own; such tests come last in their module."""
    import ray

    ray.shutdown()
    yield
    ray.shutdown()
