"""Settings of the service, from the command line or a YAML file."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from rlsched.settings import Frozen, SettingError

STATES_A_TIMEOUT = 256  # clusters that share one timeout of a policy; a larger request has a multiple of it


class ServeLimits(Frozen):
    """Limits of a request, and of a replica."""

    body_bytes: int = Field(32 << 20, ge=1024, description="of a request; more: 413")
    jobs: int = Field(20_000, ge=16, le=100_000, description="of a cluster, running and waiting; more: 422")
    states: int = Field(4096, ge=1, le=10_000, description="clusters in a batch; more: 422")
    concurrency: int = Field(64, ge=1, description="requests that a replica answers or queues; more: 429")
    timeout_s: float = Field(
        1.0, gt=0, description="of a policy's decision about a cluster; then the heuristic answers"
    )
    body_s: float = Field(10.0, gt=0, description="of the arrival of a body; then 408")
    answer_s: float = Field(
        16.0, gt=0, description="of four tries, each a quarter of it, at least twice timeout_s; then 504"
    )


class Scaling(Frozen):
    """Number of replicas; it grows while each has more requests than `ongoing`."""

    replicas: int = Field(1, ge=1, description="at the start and at least")
    most: int | None = Field(None, ge=1, description="by autoscaling; null: no autoscaling")
    ongoing: float = Field(4.0, gt=0, description="target of requests per replica")
    cpus: float = Field(1.0, ge=0, description="of the Ray cluster for a replica")

    @model_validator(mode="after")
    def _together(self) -> Scaling:
        if self.most is not None and self.most < self.replicas:
            raise SettingError("most", f"value {self.most} is less than replicas {self.replicas}", "set more")
        return self


class Gate(Frozen):
    """Comparison of policies with the heuristics of validation, before they act."""

    trace: Path = Field(description="of the site's own jobs (SWF, plain or gzip); its last jobs are used")
    episodes: int = Field(
        30,
        ge=1,
        description="consecutive windows of the trace, at least 5; more detect smaller differences",
    )
    jobs: int | None = Field(
        None, ge=1, description="in each; null: as many jobs, or ticks, as the policy's episodes have"
    )

    def rooted(self) -> Gate:
        """Copy with an absolute path of the trace."""
        return self.model_copy(update={"trace": self.trace.absolute()})


def _single_path(name: str) -> BeforeValidator:
    """Take a single path as the entry of this name."""
    return BeforeValidator(lambda value: {name: value} if isinstance(value, str | Path) else value)


class ServeConfig(Frozen):
    """Settings of the service."""

    policies: Annotated[dict[str, Path], _single_path("default")] = Field(
        min_length=1,
        description="name -> folder of an exported policy; the first is the default",
    )
    mode: Literal["policy", "shadow"] = Field(
        "policy",
        description="policy: the policy decides; shadow: the heuristic decides, and answers also hold the "
        "policy's decisions",
    )
    fallback: str | None = Field(
        None,
        description="name:rule of the fallback heuristic; null: fcfs with EASY backfilling, or the same "
        "with a horizon",
    )
    gate: Annotated[Gate | None, _single_path("trace")] = Field(
        None,
        description="if a policy is worse on it, the heuristic decides, as in mode shadow; null: no gate",
    )
    limits: ServeLimits = ServeLimits()
    scaling: Scaling = Scaling()
    hosts: tuple[str, ...] = Field(
        (),
        description="host names of the service besides addresses and the names of this machine; '*': any",
    )
    token_file: Path | None = Field(
        None, description="file of tokens, one per line; each request must send one; null: no token is needed"
    )
    log: Path | None = Field(None, description="folder for a log of every decision; null: no log")
    reload_s: float = Field(2.0, gt=0, description="between checks for new versions in the folders")

    def at(self, host: str) -> ServeConfig:
        """Settings for processes at a host: with the names of this machine, and absolute paths."""
        # Replicas may run on other machines.
        names = (*self.hosts, host, socket.gethostname(), socket.getfqdn())
        return self.model_copy(update={"hosts": tuple(dict.fromkeys(names))}).rooted()

    def rooted(self) -> ServeConfig:
        """Copy with absolute paths, for replicas elsewhere; links stay, since their targets may change."""
        return self.model_copy(
            update={
                "policies": {name: path.absolute() for name, path in self.policies.items()},
                "token_file": self.token_file and self.token_file.absolute(),
                "gate": self.gate and self.gate.rooted(),
                "log": self.log and self.log.absolute(),
            }
        )
