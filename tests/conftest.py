"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("untimed")

os.environ.setdefault("RAY_worker_niceness", "0")  # else all other tests on these cores come first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that no worker is left alone with one in the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    # Pages of docs, which lie beside the folders, are the longest.
    items.sort(key=lambda item: (item.path not in slow, len(item.path.parts)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces and power series: RLSCHED_DATA, or ../shared/data beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("RLSCHED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; RLSCHED_DATA names another one")
    return folder
