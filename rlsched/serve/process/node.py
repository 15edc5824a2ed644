"""The node of Ray under a service: which of its processes have died, and how it is ended then."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import ray
from ray._private.ray_constants import PROCESS_TYPE_RAYLET as RAYLET

PROCESSES = Path("/proc")
ZOMBIE = "Z"


class LocalNode:
    """The node of Ray that this process has started, if it has.

    Attributes:
        agents: process ids of helpers of the raylet, which ends workers and itself where one dies.
    """

    def __init__(self, agents: tuple[int, ...] = ()) -> None:
        self.agents = agents

    def find_agents(self) -> None:
        """Watch over agents, too; Ray has started them by the time that it has started an actor."""
        node = ray._private.worker._global_node
        started = [] if node is None else node.all_processes.get(RAYLET, [])
        raylets = [one.process.pid for one in started]
        self.agents = tuple(
            one for raylet in raylets for one in children_of(raylet) if _is_agent(one, raylet)
        )

    def dead(self) -> list[str]:
        """Names of processes that have died, as `raylet`."""
        node = ray._private.worker._global_node
        if node is None:
            return []
        found = [name for name, _ in node.dead_processes()]
        return found + ["agent" for one in self.agents if not is_alive(one)]

    def logs(self) -> Path:
        """The folder of its logs."""
        return Path(ray._private.worker._global_node.get_logs_dir_path())

    def end(self) -> None:
        """End the node, of which part has died: it could not end by itself."""
        node = ray._private.worker._global_node
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        # Workers that were starting look for the GCS for most of a minute, and agents live as long.
        session = node.session_name.encode()
        for path in PROCESSES.glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if int(path.name) in self.agents or session in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)


def children_of(process: int) -> list[int]:
    """Process ids of a process's children; none where the system does not say."""
    found: list[int] = []
    for path in PROCESSES.glob(f"{process}/task/*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, path.read_text().split())
    return found


def _is_agent(process: int, raylet: int) -> bool:
    """Whether a child of a raylet is an agent: workers lead process groups of their own.

    They do once they have another executable than the raylet.
    """
    try:
        links = [(PROCESSES / str(one) / "exe").readlink() for one in (process, raylet)]
        return links[0] != links[1] and os.getpgid(process) != process
    except OSError:  # it has ended
        return False


def is_alive(process: int) -> bool:
    """Whether a process has not ended yet."""
    try:
        state = (PROCESSES / str(process) / "stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != ZOMBIE
