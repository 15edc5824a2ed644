"""Checks by other programs, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial

from rlsched.deploy.findings import Place

TIMEOUT_S = 60.0
OFFLINE = {"COMPOSE_EXPERIMENTAL_GIT_REMOTE": "false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE": "false"}


def run_tool(place: Place, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str] | None:
    """Run a program with a text as its input; None, with a line in the report: not installed, or it hangs."""
    if shutil.which(command[0]) is None:
        place.report.unchecked.append(f"{command[0]} is not installed: skipped")
        return None
    run = partial(subprocess.run, capture_output=True, encoding="utf-8", errors="replace", check=False)
    try:
        return run(command, input=text, timeout=TIMEOUT_S, env={**os.environ, **OFFLINE, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        place.report.unchecked.append(f"{command[0]} takes more than {TIMEOUT_S:.0f} s: skipped")
        return None
