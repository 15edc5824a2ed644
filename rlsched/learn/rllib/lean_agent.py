"""Runs an agent of a Ray node without its dashboard modules: `python lean_agent.py AGENT [ARGUMENT ...]`.

A node waits for its two agents, which are Python processes, before it starts a worker. The first one imports
and runs modules for a dashboard, which is not there (`ray.dashboard.modules`). Garbage collection takes a
quarter of an agent's start, so it runs less often here. No module of this project is imported: that would
take longer.
"""

from __future__ import annotations

import gc
import runpy
import sys
from pathlib import Path

DASHBOARD_AGENT = "ray/dashboard/agent.py"


def main() -> None:
    """Run the script of the first argument, with the arguments after it."""
    gc.set_threshold(50_000, 20, 100)
    del sys.argv[0]
    agent = Path(sys.argv[0])
    if sys.path[0] == str(Path(__file__).parent):  # absent with Python's safe path option
        sys.path[0] = str(agent.parent)
    if agent.as_posix().endswith(DASHBOARD_AGENT):
        from ray.dashboard import utils

        utils.get_all_modules = lambda kind: []
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
