"""Which folder compiled code is cached in."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from rlsched.files import is_private
from rlsched.sim import caching
from rlsched.sim.caching import cache_folder, readable_index

ROOT = Path(__file__).parents[2]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that may not be written to, and folders for caches and temporary files."""
    package = tmp_path / "package"
    package.mkdir()
    writable = os.access
    monkeypatch.setattr(
        caching.os, "access", lambda path, mode: Path(path) != package and writable(path, mode)
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    cache_folder.cache_clear()
    return package


def test_the_cache_is_in_the_source_folder_where_that_is_writable(tmp_path: Path) -> None:
    assert cache_folder(tmp_path) == ""


def test_else_it_is_in_the_cache_folder_of_the_user(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(places.parent / "home"))
    assert cache_folder(places) == str(places.parent / "home" / ".cache" / "rlsched")
    cache_folder.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(places.parent / "caches"))
    assert cache_folder(places) == str(places.parent / "caches" / "rlsched")
    (places.parent / "caches" / "rlsched").chmod(0o777)  # where others may plant what is run
    cache_folder.cache_clear()
    assert cache_folder(places) == str(places.parent / f"rlsched-{os.getuid()}" / ".cache" / "rlsched")


def test_without_a_home_it_is_a_temporary_folder_that_is_private(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places.parent / "file").touch()
    monkeypatch.setenv("HOME", str(places.parent / "file"))  # no folder can be made in it
    folder = places.parent / f"rlsched-{os.getuid()}"
    assert cache_folder(places) == str(folder / ".cache" / "rlsched")
    assert is_private(folder)
    # What others may write to, or have put there, is not used: compiled code is run.
    folder.chmod(0o777)
    cache_folder.cache_clear()
    second = Path(cache_folder(places))
    assert second != folder
    assert is_private(second)
    shutil.rmtree(folder)
    folder.symlink_to(second)
    cache_folder.cache_clear()
    assert Path(cache_folder(places)) not in {folder, second}


@pytest.mark.parametrize("change", ["rlsched.sim.gone", "rlsched.sim.state:Gone"])
def test_a_cache_with_types_of_another_version_counts_as_empty(change: str) -> None:
    module, _, name = change.partition(":")
    entry = b"c" + module.encode() + b"\n" + (name or "Gone").encode() + b"\n."
    assert readable_index(partial(pickle.loads, entry)) == {}
    assert readable_index(lambda: {1: 2}) == {1: 2}


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77
shift
exec "$@"
"""
"""Runs a command that sees a folder which nobody may write to, root included."""


@pytest.mark.long
def test_an_installation_that_may_not_be_written_to_runs_without_a_home(tmp_path: Path) -> None:
    trace = str(ROOT / "datasets" / "sample.swf.gz")
    words = ["simulate", "--trace", trace, "--policy", "fcfs", "--backfill", "none", "--jobs", "64"]
    command = [sys.executable, "-m", "rlsched", *words, "--episodes", "1"]
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(ROOT / "rlsched"), *command],
            env={"PATH": os.environ["PATH"], "HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("a folder cannot be made read-only here")
    assert (done.returncode, done.stderr) == (0, "compiling the simulator, once: about a minute\n")
    assert any((tmp_path / f"rlsched-{os.getuid()}" / ".cache" / "rlsched").iterdir())
