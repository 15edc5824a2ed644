"""Which long tests are due in CI: those of what was changed lately, and a quarter of the others, in turns."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import pytest

PARTS = 4
LATELY_S = 12 * 3600
"""Before the newest commit: what lands together was committed within them."""

DOCS = "docs"
FOLDERS = {"docs": DOCS, "README.md": DOCS, "benchmarks": "benchmarks", "clusters": "clusters"}
"""Top of a path -> the tests of what lies there; in rlsched and tests, the next part says it."""


class Due:
    """A pytest plugin that leaves out long tests that are not due, and those that there is no time for.

    Args:
        root: of the repository.
        minutes: after which no other test begins.
    """

    def __init__(self, root: Path, minutes: float) -> None:
        self.changed = folders_that_test(changed_lately(root))
        self.turn = int(git(root, "rev-list", "--count", "HEAD") or 0) % PARTS
        self.minutes, self.until = minutes, time.monotonic() + 60 * minutes

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is not due; what was changed comes first."""
        changed = [item for item in items if folder_of(item.nodeid) in self.changed]
        others = [item for item in items if folder_of(item.nodeid) not in self.changed]
        turn = [item for item in others if turn_of(item.nodeid) == self.turn]
        config.hook.pytest_deselected(items=[item for item in others if item not in turn])
        items[:] = changed + turn

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip what there is no time for."""
        if time.monotonic() > self.until:
            pytest.skip(f"long tests have had their {self.minutes:g} minutes; make test-long runs all")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """It is well if nothing is due."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_report_header(self) -> str:
        """What is due."""
        changed = ", ".join(sorted(self.changed)) or "nothing"
        return f"long tests that are due: of {changed}, and part {self.turn + 1} of {PARTS} of the others"


def changed_lately(root: Path) -> list[str]:
    """Paths that the newest commits changed."""
    newest = int(git(root, "show", "-s", "--format=%ct", "HEAD").strip() or 0)
    return git(root, "log", f"--since={newest - LATELY_S}", "--name-only", "--format=").splitlines()


def git(root: Path, *words: str) -> str:
    """What git says; nothing where there is none."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def folders_that_test(paths: Iterable[str]) -> set[str]:
    """Folders of tests for these paths: rlsched/serve/http.py is tested by serve."""
    found = set()
    for top, *rest in (Path(path).parts for path in paths if path):
        if top in FOLDERS:
            found.add(FOLDERS[top])
        elif top in ("rlsched", "tests") and len(rest) > 1:
            found.add(rest[0])
    return found


def folder_of(nodeid: str) -> str:
    """The folder of a test; `docs` for tests that lie beside the folders."""
    parts = Path(nodeid.partition("::")[0]).parts
    return parts[1] if len(parts) > 2 else DOCS


def turn_of(nodeid: str) -> int:
    """In which part of the turns a test is; all of a file are in one."""
    return crc32(nodeid.partition("::")[0].encode()) % PARTS
