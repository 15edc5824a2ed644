"""Runs an agent of a Ray node with less than it would have: `python lean_agent.py AGENT [ARGUMENT ...]`.

A node waits for its two agents, which are Python processes, before it starts a worker. What the first one
imports and does is for a dashboard, which is not there (`ray.dashboard.modules`); and while an agent starts,
Python looks through what it imports for rubbish, a quarter of its time. Nothing of this project is imported:
that would take longer.
"""

from __future__ import annotations

import gc
import runpy
import sys
from pathlib import Path

DASHBOARD_AGENT = "ray/dashboard/agent.py"


def main() -> None:
    """Run what the first argument names, with those after it."""
    gc.set_threshold(50_000, 20, 100)
    del sys.argv[0]
    agent = Path(sys.argv[0])
    if sys.path[0] == str(Path(__file__).parent):  # it is not there where paths are to be safe
        sys.path[0] = str(agent.parent)
    if agent.as_posix().endswith(DASHBOARD_AGENT):
        from ray.dashboard import utils

        utils.get_all_modules = lambda kind: []
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
