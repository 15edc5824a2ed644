"""Settings of the service, from the command line or a YAML file."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from rlsched.settings import Frozen, SettingError

STATES_A_TIMEOUT = 256
"""Clusters that a policy is given its time for; more of them have as many times that."""


class ServeLimits(Frozen):
    """What one request, and one replica, may ask for."""

    body_bytes: int = Field(32 << 20, ge=1024, description="of a request; more is answered by 413")
    jobs: int = Field(20_000, ge=16, le=100_000, description="of a cluster, running and waiting; more: 422")
    states: int = Field(4096, ge=1, le=10_000, description="clusters in a batch; more: 422")
    concurrency: int = Field(
        64, ge=1, description="requests that a replica works at or keeps waiting; more: 429"
    )
    timeout_s: float = Field(
        1.0, gt=0, description="that a policy may take over a cluster; then the heuristic answers"
    )
    body_s: float = Field(10.0, gt=0, description="that a body may take to arrive; then 408")
    answer_s: float = Field(
        16.0, gt=0, description="of four tries, each a quarter of it, at least twice timeout_s; then 504"
    )


class Scaling(Frozen):
    """How many replicas there are; more of them where each has more requests than `ongoing`."""

    replicas: int = Field(1, ge=1, description="at first and at least")
    most: int | None = Field(None, ge=1, description="by autoscaling; null: as many as at first")
    ongoing: float = Field(4.0, gt=0, description="requests that a replica shall have at a time")
    cpus: float = Field(1.0, ge=0, description="of the Ray cluster that a replica takes")

    @model_validator(mode="after")
    def _together(self) -> Scaling:
        if self.most is not None and self.most < self.replicas:
            raise SettingError("most", f"value {self.most} is less than replicas {self.replicas}", "set more")
        return self


class Gate(Frozen):
    """On what policies are held against the heuristics of validation before they act."""

    trace: Path = Field(description="of the site's own jobs (SWF, plain or gzip); the last are played")
    episodes: int = Field(
        30,
        ge=1,
        description="windows of it, one behind the other, at least 5; more see a smaller lag",
    )
    jobs: int | None = Field(
        None, ge=1, description="in each; null: as many as the policy's episodes have, or ticks likewise"
    )

    def rooted(self) -> Gate:
        """With the trace named from the root."""
        return self.model_copy(update={"trace": self.trace.absolute()})


class ServeConfig(Frozen):
    """What is served, and how."""

    policies: dict[str, Path] = Field(
        min_length=1,
        description="name -> folder of an exported policy; the first is asked where none is named",
    )
    mode: Literal["policy", "shadow"] = Field(
        "policy",
        description="policy: it decides; shadow: the heuristic decides, and the policy is only told of",
    )
    fallback: str | None = Field(
        None,
        description="order:rule of the heuristic beside the policy; null: fcfs with EASY backfilling, or "
        "what a horizon has of it",
    )
    gate: Gate | None = Field(
        None,
        description="where it finds a policy behind, the heuristic decides, as in mode shadow; null: none",
    )
    limits: ServeLimits = ServeLimits()
    scaling: Scaling = Scaling()
    hosts: tuple[str, ...] = Field(
        (),
        description="names under which it may be asked, beside addresses and this machine's own; '*': any",
    )
    token_file: Path | None = Field(
        None, description="a token per line, one of which requests must bear; null: anyone may ask"
    )
    log: Path | None = Field(None, description="folder to which every decision is written; null: none")
    reload_s: float = Field(2.0, gt=0, description="between looks for a new version in the folders")

    @field_validator("policies", mode="before")
    @classmethod
    def _rooted(cls, value: Any) -> Any:
        """One folder is a policy called default."""
        return {"default": value} if isinstance(value, str | Path) else value

    @field_validator("gate", mode="before")
    @classmethod
    def _traced(cls, value: Any) -> Any:
        """A path alone is the trace of a gate."""
        return {"trace": value} if isinstance(value, str | Path) else value

    def at(self, host: str) -> ServeConfig:
        """For processes that answer at a host: with the names of this machine, and absolute paths."""
        # They may run on other machines than the one that is asked.
        names = (*self.hosts, host, socket.gethostname(), socket.getfqdn())
        return self.model_copy(update={"hosts": tuple(dict.fromkeys(names))}).rooted()

    def rooted(self) -> ServeConfig:
        """With folders named from the root: replicas run elsewhere. Links stay: they may lead on tomorrow."""
        return self.model_copy(
            update={
                "policies": {name: path.absolute() for name, path in self.policies.items()},
                "token_file": None if self.token_file is None else self.token_file.absolute(),
                "gate": None if self.gate is None else self.gate.rooted(),
                "log": None if self.log is None else self.log.absolute(),
            }
        )
