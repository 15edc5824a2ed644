"""The node of Ray under a service: its dead processes, and its end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from rlsched.learn.rllib.ray_compat import RAYLET, local_node

PROCESSES = Path("/proc")
ZOMBIE = "Z"


class LocalNode:
    """The node of Ray that this process has started, if any.

    Attributes:
        agents: process ids of the raylet's agents; if one dies, the raylet ends workers and itself.
    """

    def __init__(self, agents: tuple[int, ...] = ()) -> None:
        self.agents = agents

    def find_agents(self) -> None:
        """Find the agents; Ray has started them before it starts the first actor."""
        node = local_node()
        started = [] if node is None else node.all_processes.get(RAYLET, [])
        raylets = [info.process.pid for info in started]
        self.agents = tuple(
            child for raylet in raylets for child in children_of(raylet) if _is_agent(child, raylet)
        )

    def dead(self) -> list[str]:
        """Names of dead processes, such as `raylet`."""
        node = local_node()
        if node is None:
            return []
        dead = [name for name, _ in node.dead_processes()]
        return dead + ["agent" for agent in self.agents if not is_alive(agent)]

    def logs(self) -> Path:
        """The folder of its logs."""
        return Path(local_node().get_logs_dir_path())

    def end(self) -> None:
        """End a node with dead processes, which cannot end by itself."""
        node = local_node()
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        # Workers that were starting look for the GCS for most of a minute, and agents live as long.
        session = node.session_name.encode()
        for path in PROCESSES.glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if int(path.name) in self.agents or session in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)


def children_of(process: int) -> list[int]:
    """Process ids of a process's children; none if the system does not list them."""
    children: list[int] = []
    for path in PROCESSES.glob(f"{process}/task/*/children"):
        with suppress(OSError):  # the thread has ended
            children += map(int, path.read_text().split())
    return children


def _is_agent(process: int, raylet: int) -> bool:
    """Whether a child of a raylet is an agent: workers lead their process groups, and agents do not.

    A child of the raylet has its executable until it runs another one.
    """
    try:
        links = [(PROCESSES / str(number) / "exe").readlink() for number in (process, raylet)]
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
