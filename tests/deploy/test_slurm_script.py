"""The batch script of Slurm runs: on nodes that are pretended, and once on a real Ray."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from .slurm_fakes import PYTHON, RAY, RLSCHED, ROOT, SCONTROL, SLEEP, SRUN, Slurm

PORT = 20000 + 4711 * 3
OUT = ("train", "--scenario", "green-10", "--out", "runs/x")


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    programs = {
        **{"scontrol": SCONTROL, "srun": SRUN, "ray": RAY, "python": PYTHON, "rlsched": RLSCHED},
        **{"sleep": SLEEP},
    }
    return Slurm(tmp_path, programs)


def test_ray_starts_on_the_head_then_on_the_others_then_the_command(slurm: Slurm) -> None:
    ended = slurm.run(*OUT)
    assert ended.code == 0, ended.output
    head, worker = ended.first("ray start --head"), ended.first("ray start --address")
    up, all_up, run = ended.last("ray health-check"), ended.last("nodes"), ended.first("rlsched")
    assert head < up < worker < run
    assert up < all_up < run
    requested = [call for call in ended.calls if call.startswith("srun") and "ray start" in call]
    assert requested[0].startswith("srun --nodes=1 --ntasks=1 --nodelist=n1 ray start --head")
    assert requested[1].startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --exclude=n1 ray start")
    assert len(requested) == 2
    assert f"--node-ip-address=10.0.0.7 --port={PORT} " in ended.calls[head]
    assert (
        f"--ray-client-server-port={PORT + 1} --dashboard-agent-listen-port={PORT + 2} " in ended.calls[head]
    )
    assert "--num-cpus=4 --num-gpus=0 --block" in ended.calls[head]
    assert f"--address=10.0.0.7:{PORT} " in ended.calls[worker]
    assert ended.calls[run] == f"rlsched {' '.join(OUT)} --address 10.0.0.7:{PORT}"
    # The second look found all three.
    assert ended.calls.count(f"nodes 10.0.0.7:{PORT} 3") == 2


def test_everything_it_started_is_ended_and_removed(slurm: Slurm) -> None:
    ended = slurm.run(*OUT)
    ends = [k for k, call in enumerate(ended.calls) if call.startswith("ended start")]
    assert len(ends) == 2
    assert min(ends) > ended.first("rlsched")
    removed = ended.first("srun --ntasks-per-node=1 rm -rf /tmp/ray-4711")
    assert removed > max(ends)


def test_gpus_of_the_node_are_rays(slurm: Slurm) -> None:
    ended = slurm.run(*OUT, SLURM_GPUS_ON_NODE="2")
    assert all("--num-gpus=2" in call for call in ended.calls if call.startswith("ray start"))


def test_one_node_has_no_workers(slurm: Slurm) -> None:
    ended = slurm.run(*OUT, nodes="n1")
    assert ended.code == 0, ended.output
    assert [call.split()[2] for call in ended.calls if call.startswith("ray start")] == ["--head"]
    assert f"nodes 10.0.0.7:{PORT} 1" in ended.calls


@pytest.mark.parametrize("command", ["train", "tune"])
def test_an_existing_run_is_resumed(slurm: Slurm, command: str) -> None:
    out = slurm.folder / "runs" / "x"
    out.mkdir(parents=True)
    (out / {"train": "train.yaml", "tune": "sweep.yaml"}[command]).write_text("")
    ended = slurm.run(command, "file.yaml", f"--out={out}")
    line = f"rlsched {command} --resume --out {out} --address 10.0.0.7:{PORT}"
    assert ended.calls[ended.first("rlsched")] == line


def test_the_commands_exit_code_is_the_jobs(slurm: Slurm) -> None:
    ended = slurm.run(*OUT, ENDS_WITH="3")
    assert ended.code == 3
    assert sum(call.startswith("ended start") for call in ended.calls) == 2
    assert not any(call.startswith("scontrol requeue") for call in ended.calls)


def test_before_the_time_is_up_it_saves_and_queues_again(slurm: Slurm) -> None:
    running = slurm.start(*OUT, RUNS="yes")
    running.until("rlsched")
    running.term()
    ended = running.end()
    assert ended.code == 130
    assert ended.first("saved") < ended.first("ended start")
    assert ended.last("ended start") < ended.last("srun") < ended.first("scontrol requeue 4711")
    assert sum(call.startswith("ended start") for call in ended.calls) == 2


def test_a_head_that_does_not_start_ends_the_job(slurm: Slurm) -> None:
    ended = slurm.run(*OUT, HEAD_DIES="yes")
    assert ended.code == 1
    assert "Ray has ended on its nodes" in ended.output
    assert not any(call.startswith(("rlsched", "ray start --address")) for call in ended.calls)


@pytest.mark.parametrize("arguments", [(), ("train", "--scenario", "green-10"), ("simulate", "--out", "x")])
def test_without_a_run_to_write_nothing_starts(slurm: Slurm, arguments: tuple[str, ...]) -> None:
    ended = slurm.run(*arguments)
    assert ended.code == 2
    assert ended.output.startswith("usage: sbatch")
    assert ended.calls == []


def free_job() -> int:
    """A job whose three ports are free."""
    for job in range(1 + os.getpid() % 4000, 10_000):
        try:
            for k in range(3):
                with socket.socket() as probe:
                    probe.bind(("", 20000 + job * 3 + k))
        except OSError:
            continue
        return job
    raise AssertionError("no port is free")


# Both nodes are this machine, so the second does not get the first one's port for its agent.
SECOND_NODE_PORT = """if [[ "$*" == *--address=* ]]; then
    set -- "${@/#--dashboard-agent-listen-port=*/--log-style=record}"
fi
"""
LOCAL_SRUN = SRUN.replace('exec "$@"', f'{SECOND_NODE_PORT}exec "$@"')


@pytest.mark.slow
@pytest.mark.long
def test_it_trains_on_two_nodes_of_a_real_ray(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, {"scontrol": SCONTROL, "srun": LOCAL_SRUN})
    programs = ROOT / ".venv" / "bin" if (ROOT / ".venv").is_dir() else Path(shutil.which("ray") or "").parent
    with (tmp_path / "venv" / "bin" / "activate").open("a") as file:
        file.write(f'PATH="{tmp_path}/venv/bin:{programs}:$PATH"\n')
    job = free_job()
    small = (
        *("--set", "sampling.runners=2", "--set", "sampling.envs_per_runner=4"),
        *("--set", "sampling.fragment=16", "--set", "ppo.minibatch=16", "--set", "validation.episodes=2"),
    )
    command = ("train", "--scenario", "green-10", "--steps", "64", *small, "--out", str(tmp_path / "run"))
    running = slurm.start(*command, nodes="n1 n2", job=job, SLURM_CPUS_PER_TASK="1")
    ended = running.end(patience_s=280)
    assert ended.code == 0, ended.output
    assert "stopped: steps" in ended.output
    assert (tmp_path / "run" / "best").is_dir()
    assert not Path(f"/tmp/ray-{job}").exists()
    remaining = subprocess.run(
        ["pgrep", "-f", f"/tmp/ray-{job}/"], capture_output=True, text=True, check=False
    )
    assert remaining.stdout == "", "Ray was not ended"
