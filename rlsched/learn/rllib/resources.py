"""Check that a Ray cluster has the resources of a training: Ray would wait for them without a message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import ray

from rlsched.errors import BadInputError
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.rllib.ray_compat import largest_cluster


def bundles(config: ResolvedConfig) -> list[dict[str, float]]:
    """CPUs and GPUs of each process that a training starts, its own excluded.

    Args:
        config: settled.
    """
    runners = (config.sampling.runners) if config.plays else 0
    gpus = config.gpus_per_learner
    learner: dict[str, float] = {"GPU": gpus} if gpus else {"CPU": 1.0}
    return [{"CPU": 1.0}] * runners + [learner] * config.learners


def check_resources(wanted: list[dict[str, float]], where: str, user: str) -> None:
    """Check that the running Ray, grown to its largest size, has these resources in total.

    Args:
        wanted: resources of every process.
        where: setting in which a user asked for them, for the message.
        user: of the resources, for the message.

    Raises:
        BadInputError: it will never have them.
    """
    total: dict[str, float] = defaultdict(float)
    for bundle in wanted:
        for name, amount in bundle.items():
            total[name] += amount
    available = offered()
    for name, amount in total.items():
        if amount > available.get(name, 0):
            raise BadInputError(
                where,
                f"{user} wants {amount:g} {name}s, and Ray has {available.get(name, 0):g} here",
                "ask for fewer (sampling.runners, learners, gpus_per_learner), or give --address of a larger "
                "cluster",
            )


def offered() -> Mapping[str, Any]:
    """Resource -> amount that the cluster has, or may grow to."""
    has: dict[str, Any] = ray.cluster_resources()
    grows = largest_cluster()
    return {name: max(has.get(name, 0), grows.get(name, 0)) for name in {*has, *grows}}
