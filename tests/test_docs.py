"""Every command in README, guides and reference runs as it stands, with fewer steps where it trains.

Commands run in this process, so that imports and Ray start once. A service has a process of its own. The
commands of the README also run as programs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from rlsched.cli.main import main
from rlsched.learn.watchdog import watchdog
from rlsched.serve.process.ports import free_ports

ROOT = Path(__file__).parents[1]
ARCHIVE = re.compile(r"\b(lublin_256|HPC2N-2002-2\.2-cln|CTC-SP2-1996-3\.1-cln)\.swf\.gz")
SAMPLED = "--set sampling.envs_per_runner=4 --set sampling.fragment=16 "
"""Settings that REINFORCE refuses."""
# Less of everything that a training does; the rest of a command stays as it is.
SHORTER = (
    f"--steps 64 {SAMPLED}--set ppo.minibatch=16 "
    "--set cocorl.fragment=16 --set cocorl.minibatch=16 "
    "--set dqn.learning_starts=0 --set rare.learning_starts=0 --set launchpad.rows=32 "
    "--set bc.rows=1024 --set marwil.rows=1024 --set cql.rows=1024 --set rare.rows=1024 "
    "--set validation.episodes=2"
)

PATIENCE_S = 300


def commands(page: Path) -> list[str]:
    """The lines of the page's sh blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


PAGES = [
    page
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs" / "guide").glob("*.md")),
        *sorted((ROOT / "docs" / "reference").glob("*.md")),
    )
    if commands(page)
]


class Shell:
    """Runs commands in a folder that is like a clone's root.

    Args:
        folder: working folder of the commands.
        address: of a Ray cluster. Each command is then a program, as a user starts it, and trainings get
            --address. None: all commands run in this process.
    """

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self.folder, self.address = folder, address
        self._service: subprocess.Popen[bytes] | None = None
        self._port = 0

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of a command."""
        if command.startswith("curl "):
            return self._request(shlex.split(command))
        words = self._arguments(command)
        if words[0] == "serve":
            return self._start_service(words)
        output = StringIO()
        # Minari would write into the user's home.
        environment = {"MINARI_DATASETS_PATH": str(self.folder / "minari")}
        if self.address is not None:
            return self._program(words, environment)
        with (
            watchdog(PATIENCE_S / 60, command),
            chdir(self.folder),
            patch.dict(os.environ, environment),
            redirect_stdout(output),
            redirect_stderr(output),
        ):
            return main(words), output.getvalue()

    def _program(self, words: list[str], environment: dict[str, str]) -> tuple[int, str]:
        """Run a command in a process of its own."""
        process = subprocess.run(
            [sys.executable, "-m", "rlsched", *words],
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return process.returncode, process.stdout + process.stderr

    def _start_service(self, words: list[str]) -> tuple[int, str]:
        """Start a service that runs until `close`; exit code 0 if it is ready."""
        folder, ready_file = self.folder, self.folder / "service.json"
        self._port = free_ports(1)[0]
        options = ["--port", str(self._port), "--json", str(ready_file)]
        command = [sys.executable, "-m", "rlsched", *words, *options]
        with (folder / "service.txt").open("wb") as log:
            self._service = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        until = time.monotonic() + PATIENCE_S
        while self._service.poll() is None and not ready_file.exists() and time.monotonic() < until:
            time.sleep(0.2)
        ready = self._service.poll() is None and ready_file.exists()
        return 0 if ready else 1, (folder / "service.txt").read_text("utf-8", errors="replace")

    def _request(self, words: list[str]) -> tuple[int, str]:
        """Send a request to the service at its real port; exit code 0 if it decides."""
        addressed = [word.replace("localhost:8000", f"localhost:{self._port}") for word in words]
        process = subprocess.run(
            addressed, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        return 0 if '"decisions":[{' in process.stdout else 1, process.stdout + process.stderr

    def close(self) -> None:
        """End the service."""
        if self._service is not None:
            self._service.send_signal(signal.SIGINT)
            self._service.wait(timeout=PATIENCE_S)
            self._service = None

    def _arguments(self, command: str) -> list[str]:
        """Arguments of a command, with fewer steps where it trains."""
        program, *words = shlex.split(command)
        assert program == "rlsched"
        if words[0] == "train":
            shorter = SHORTER.replace(SAMPLED, "") if "reinforce" in words else SHORTER
            words += shlex.split("--steps 128" if "--resume" in words else shorter)
            if (
                re.search(r"lublin|\.swf\.gz", command)
                and "--resume" not in words
                and "episode." not in command
            ):
                words += shlex.split("--set episode.jobs=64")  # heuristics play them, too
            if "network.lstm" in command:
                words += shlex.split("--set network.lstm_steps=8")
            if "--resume" not in words and "warm_start.decisions=0" not in command:
                words += shlex.split("--set warm_start.decisions=500")
            if "priority_search" in words:
                words += shlex.split("--set search.population=4 --set search.episodes=1")
        new_sweep = words[0] == "tune" and "show" not in words and "--resume" not in words
        if new_sweep and "battery" not in command:  # which trains nothing
            words += shlex.split(SHORTER.replace("--steps 64", "--set steps=64"))
            words += shlex.split("--set search.population=4 --set search.episodes=1")
        if self.address is not None and (words[0] == "train" or new_sweep):
            words += ["--address", self.address]
        if words[0] == "evaluate" and "--episodes" in words:
            words[words.index("--episodes") + 1] = "2"
        return words


@pytest.mark.long  # half a minute to two minutes a page
@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run_commands(page, Shell(tmp_path), request)


@pytest.mark.slow
@pytest.mark.long
def test_commands_of_the_readme_run_as_programs(
    tmp_path: Path, ray_address: str, request: pytest.FixtureRequest
) -> None:
    """Each program trains on the cluster of its --address, and exits."""
    run_commands(ROOT / "README.md", Shell(tmp_path, ray_address), request)


def run_commands(page: Path, shell: Shell, request: pytest.FixtureRequest) -> None:
    """Run all commands of a page. Traces of the archive come from the data folder."""
    for shipped in ("clusters", "datasets", "tune_configs"):
        shutil.copytree(ROOT / shipped, shell.folder / shipped)
    try:
        for line in commands(page):
            if ARCHIVE.search(line):
                for file in (request.getfixturevalue("data_dir") / "swf").iterdir():
                    if not (shell.folder / file.name).exists():
                        (shell.folder / file.name).symlink_to(file.resolve())
            code, output = shell.run(line)
            assert code == 0, f"{line}\n{output}"
    finally:
        shell.close()


@pytest.mark.parametrize("page", ["README.md", "docs/guide/gymnasium.md"])
def test_python_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
