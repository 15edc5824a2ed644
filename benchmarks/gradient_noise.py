"""How far a policy gradient can be trusted, by the lambda of its advantages.

Plays the untrained job scorer, fits a critic, and estimates the gradient of the scorer's linear weights from
two further, independent batches. The cosine of the two tells noise; how far short lambdas push a weight where
long ones do not tells bias, in units of the noise of the longest. docs/architecture.md draws on it.
Run: `python benchmarks/gradient_noise.py SCENARIO [--set KEY=VALUE ...]`, about two minutes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rlsched.learn.critic import Critic
from rlsched.learn.gae import advantages
from rlsched.learn.networks import JobScorer, build_policy
from rlsched.learn.sampling import TrainingVectorEnv
from rlsched.learn.sections import Network
from rlsched.scenario import load
from rlsched.sim.layout import job_features

Array = NDArray[np.float32]
PER_DECISION = (0.0, 0.8, 0.9, 0.97, 0.99, 1.0)
PER_HOUR = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95)


@dataclass(frozen=True)
class Batch:
    """Transitions (env, step); values of what is observed have one step more."""

    observed: NDArray[np.float16]  # (env, step + 1, size)
    rewards: Array
    ended: NDArray[np.bool_]
    counts: NDArray[np.bool_]  # False where the step only began the next episode
    hours: Array
    score: Array  # (env, step, weight) gradients of the log-probability of what was done


def collect(envs: TrainingVectorEnv, policy: JobScorer, observed: Array, steps: int) -> tuple[Batch, Array]:
    """Play so many steps; also returns what is observed after them."""
    size, n = envs.layout.size, envs.num_envs
    rows, rewards, ended, counts, hours, score = [], [], [], [], [], []
    fresh = np.zeros(n, np.bool_)
    for _ in range(steps):
        flat = torch.from_numpy(observed)
        vector, mask = flat[:, :size], flat[:, size:-1]
        with torch.no_grad():
            logits = policy(vector, mask)
            chances = torch.softmax(logits, 1)
            actions = torch.multinomial(chances, 1).squeeze(1)
            jobs = policy.blocks(vector, "jobs")
            env, idle = torch.arange(n), mask.shape[1] - 1
            best = jobs[env, logits[:, :-1].argmax(1)]  # waiting's logit moves with the best job's
            mean = (chances[:, :-1, None] * jobs).sum(1) + chances[:, -1:] * best
            done = torch.where((actions < idle)[:, None], jobs[env, actions.clamp(max=idle - 1)], best)
        rows.append(observed[:, :size].astype(np.float16))
        score.append((policy.sharpness * (done - mean)).numpy())
        before = observed[:, -1]
        following, reward, terminated, truncated, _ = envs.step(actions.numpy())
        assert isinstance(following, np.ndarray)
        observed = following
        rewards.append(reward)
        counts.append(~fresh)
        fresh = terminated | truncated
        ended.append(fresh)
        hours.append((observed[:, -1] - before).clip(min=0) * envs.scenario.cluster.tick_s / 3600)
    rows.append(observed[:, :size].astype(np.float16))
    batch = Batch(
        np.stack(rows, 1),
        np.stack(rewards, 1).astype(np.float32),
        np.stack(ended, 1),
        np.stack(counts, 1),
        np.stack(hours, 1),
        np.stack(score, 1),
    )
    return batch, observed


def estimate(batch: Batch, values: Array, gamma: float, lam: float, *, per_hour: bool) -> Array:
    """Advantages (env, step), gamma per hour, lambda per hour or per decision."""
    last = batch.ended.copy()
    last[:, -1] = True
    lambdas = lam**batch.hours if per_hour else np.full_like(batch.hours, lam)
    found = advantages(
        values[:, :-1].ravel(),
        (values[:, 1:] * ~batch.ended).ravel(),
        batch.rewards.ravel(),
        last.ravel(),
        (gamma**batch.hours).astype(np.float32).ravel(),
        lambdas.astype(np.float32).ravel(),
    )
    shaped: Array = found.reshape(batch.rewards.shape)
    return shaped


def values_of(critic: Critic, batch: Batch) -> Array:
    """(env, step + 1) values."""
    with torch.no_grad():
        return np.stack([critic(torch.from_numpy(row).float()).numpy() for row in batch.observed])


def fit(critic: Critic, batch: Batch, gamma: float, passes: int = 5) -> None:
    """Regress the critic on its own lambda returns, a few times over."""
    optimizer = torch.optim.Adam(critic.parameters(), 1e-3)
    rows = torch.from_numpy(batch.observed[:, :-1][batch.counts])
    for k in range(passes):
        values = values_of(critic, batch)
        targets = estimate(batch, values, gamma, 0.9, per_hour=True) + values[:, :-1]
        wanted = torch.from_numpy(targets[batch.counts])
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 - k / passes)
        for part in torch.split(torch.randperm(len(wanted)), 1024):
            loss = ((critic(rows[part].float()) - wanted[part]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Play, fit, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--steps", type=int, default=5000, help="of 64 environments, per batch")
    parser.add_argument("--gamma", type=float, default=0.95, help="per hour")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    scenario = load(chosen.scenario, chosen.set).model_dump(mode="json")
    envs = TrainingVectorEnv({"scenario": scenario, "num_envs": 64, "reward_scale": 1.0, "stream": (0, 0)})
    layout = envs.layout  # with the privileged blocks, for the critic
    policy = build_policy(layout, Network())
    assert isinstance(policy, JobScorer)
    observed, _ = envs.reset(seed=1)
    assert isinstance(observed, np.ndarray)
    batches = []
    for steps in (600, chosen.steps // 2, chosen.steps, chosen.steps):  # the first: away from empty clusters
        batch, observed = collect(envs, policy, observed, steps)
        batches.append(batch)
    critic = Critic(layout, Network().critic_hidden)
    fit(critic, batches[1], chosen.gamma)
    halves = [(batch, values_of(critic, batch)) for batch in batches[2:]]
    found: dict[str, list[Array]] = {}
    for per_hour, lambdas in ((False, PER_DECISION), (True, PER_HOUR)):
        for lam in lambdas:
            name = f"{lam:g} per {'hour' if per_hour else 'decision'}"
            found[name] = []
            for batch, values in halves:
                advantage = estimate(batch, values, chosen.gamma, lam, per_hour=per_hour)[batch.counts]
                standard = (advantage - advantage.mean()) / advantage.std()
                found[name].append((standard[:, None] * batch.score[batch.counts]).mean(0))
                if name == "0.95 per hour":
                    returns = advantage + values[:, :-1][batch.counts]
                    print(f"variance of returns explained: {1 - advantage.var() / returns.var():.3f}")
    noise = np.abs(found["1 per decision"][0] - found["1 per decision"][1]).mean() / 2**0.5 + 1e-12
    names = job_features(layout.num_resources)
    shown = [names.index(name) for name in ("fits", "requested", "wait")]
    print(f"{'lambda':<18}{'cosine':>8}   push on fits, requested, wait; either half, in units of noise")
    for name, (one, two) in found.items():
        cosine = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
        pushes = "   ".join(f"{one[k] / noise:6.1f} {two[k] / noise:6.1f}" for k in shown)
        print(f"{name:<18}{cosine:>8.2f}   {pushes}")


if __name__ == "__main__":
    main()
