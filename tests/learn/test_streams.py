"""Which episodes a runner draws: its own, and not those of any neighbour."""

from __future__ import annotations

from typing import Any

from rlsched.learn.sampling import TrainingVectorEnv
from rlsched.scenario import Scenario


class Context(dict[str, Any]):
    """What RLlib hands to an environment's creator."""

    worker_index = 0


def first_jobs(scenario: Scenario, stream: list[int], worker: int = 0) -> list[bytes]:
    context = Context(scenario=scenario.model_dump(mode="json"), stream=stream, reward_scale=1.0, num_envs=8)
    context.worker_index = worker
    envs = TrainingVectorEnv(context)
    envs.reset(seed=stream[0] + worker)  # as RLlib seeds it
    return [episode.jobs.submit.tobytes() for episode in envs.episodes]


def test_seeds_runners_and_resumed_runs_share_no_episode(small: Scenario) -> None:
    settings = [([0, 0], 0), ([1, 0], 0), ([0, 0], 1), ([0, 0], 2), ([0, 30], 0), ([1, 30], 1)]
    drawn = [jobs for stream, worker in settings for jobs in first_jobs(small, stream, worker)]
    assert len(set(drawn)) == len(drawn) == 8 * len(settings)


def test_a_stream_is_drawn_again(small: Scenario) -> None:
    assert first_jobs(small, [3, 5], 1) == first_jobs(small, [3, 5], 1)
