"""A substitute for Slurm: shell scripts that log the calls of the batch script."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "clusters" / "slurm.sh"

WRITE_DOWN = '#!/bin/bash\necho "$(basename "$0") $*" >> "$CALLS"\n'

SCONTROL = WRITE_DOWN + 'if [ "$1" = show ]; then printf "%s\\n" $NODES; fi\n'

# As srun does, it becomes what it runs: what it is told to end, ends.
SRUN = WRITE_DOWN + 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n'

RAY = (
    WRITE_DOWN
    + """case $1 in
health-check) [ -e "$CALLS.head" ]; exit ;;
start) ;;
*) exit 9 ;;
esac
if [ "${HEAD_DIES-}" ]; then exit 1; fi
trap 'echo "ended $*" >> "$CALLS"; exit 0' TERM
if [ "$2" = --head ]; then touch "$CALLS.head"; fi
while :; do /bin/sleep 0.02; done
"""
)

PYTHON = """#!/bin/bash
case $2 in
*get_node_ip_address*) echo 10.0.0.7 ;;
*)
    echo "nodes $3 $4" >> "$CALLS"
    [ "$(grep -c '^nodes' "$CALLS")" -ge 2 ] || exit 1
    # On a busy machine the others may not have been started yet.
    for _ in $(seq 500); do
        if [ "$4" = 1 ] || grep -q '^ray start --address' "$CALLS"; then exit 0; fi
        /bin/sleep 0.02
    done ;;
esac
"""

RLSCHED = (
    WRITE_DOWN
    + """trap 'echo saved >> "$CALLS"; exit 130' TERM
if [ "${RUNS-}" ]; then for _ in $(seq 500); do /bin/sleep 0.02; done; fi
exit "${ENDS_WITH-0}"
"""
)

SLEEP = "#!/bin/bash\nexec /bin/sleep 0.05\n"


@dataclass(frozen=True)
class Ended:
    """How a batch script ended, and the calls it made, in their order."""

    code: int
    output: str
    calls: list[str]

    def first(self, begin: str) -> int:
        """The position of the first call that begins so."""
        return self._all(begin)[0]

    def last(self, begin: str) -> int:
        """The position of the last one."""
        return self._all(begin)[-1]

    def _all(self, begin: str) -> list[int]:
        return [k for k, call in enumerate(self.calls) if call.startswith(begin)]


class Slurm:
    """Runs the batch script as Slurm would on the first node of a job.

    Args:
        folder: for what it makes.
        programs: name -> script, of what is found first.
    """

    def __init__(self, folder: Path, programs: Mapping[str, str]) -> None:
        self.folder, self.calls = folder, folder / "calls"
        programs_folder = folder / "venv" / "bin"
        programs_folder.mkdir(parents=True)
        (programs_folder / "activate").write_text(f'PATH="{programs_folder}:$PATH"\n')
        for name, text in programs.items():
            (programs_folder / name).write_text(text)
            (programs_folder / name).chmod(0o755)

    def start(self, *arguments: str, nodes: str = "n1 n2 n3", job: int = 4711, **environment: str) -> Running:
        """Begin."""
        environment_variables = {
            **os.environ,
            **{"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_CPUS_PER_TASK": "4"},
            **{"SLURM_SUBMIT_DIR": str(self.folder), "RLSCHED_VENV": str(self.folder / "venv")},
            **{"NODES": nodes, "CALLS": str(self.calls)},
            **environment,
        }
        self.calls.write_text("")
        output = (self.folder / "output").open("w")
        process = subprocess.Popen(
            ["bash", str(SCRIPT), *arguments],
            env=environment_variables,
            cwd=self.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Running(process, self.folder / "output", self.calls)

    def run(self, *arguments: str, nodes: str = "n1 n2 n3", **environment: str) -> Ended:
        """Begin, and wait for the end."""
        return self.start(*arguments, nodes=nodes, **environment).end()


@dataclass(frozen=True)
class Running:
    """A batch script that runs."""

    process: subprocess.Popen[bytes]
    output: Path
    calls: Path

    def until(self, begin: str, patience_s: float = 30.0) -> None:
        """Wait for a call."""
        began = time.monotonic()
        while not any(call.startswith(begin) for call in self.calls.read_text().splitlines()):
            assert time.monotonic() - began < patience_s, f"no {begin}: {self.output.read_text()}"
            time.sleep(0.02)

    def term(self) -> None:
        """What Slurm does some minutes before the time is up, with --signal=B:TERM."""
        self.process.send_signal(signal.SIGTERM)

    def end(self, patience_s: float = 60.0) -> Ended:
        """Wait for the end; what is left of it then is ended."""
        try:
            code = self.process.wait(timeout=patience_s)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        return Ended(code, self.output.read_text(), self.calls.read_text().splitlines())
