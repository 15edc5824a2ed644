"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces and power series: RLSCHED_DATA, or ../shared/data beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("RLSCHED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; RLSCHED_DATA names another one")
    return folder
