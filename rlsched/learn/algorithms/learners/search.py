"""Priority functions found by CMA-ES over the weights of a small score, from simulated episodes.

Every candidate plays the same random training episodes to their end, all side by side in one vector. Each
part of a mixture has its share of the episodes. Otherwise differences between generations would come mostly
from the parts that were drawn. The fitness is the mean return, less penalties of waits and spans near the
limits of hoarding (`hoarding`), since validation would not save such a policy. Sources: [Carastan-Santos and
de Camargo 2017] for learned priority functions, [Hansen 2016] for CMA-ES, which is the library `cma`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import cma
import numpy as np

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.algorithms.learners.hoarding import hoarding_penalties
from rlsched.learn.algorithms.learners.search_start import initial_parameters
from rlsched.learn.algorithms.priority_search import Search
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.engine import Progress
from rlsched.learn.networks.blocks import order_features
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.priority import PriorityCandidates, PriorityNet, state_features
from rlsched.learn.pid import Control, LimitCheck
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.selection import by_sjf, measured
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

STATE = "search.npz"
GUESSED = 8
"""Candidates, and episodes of each, that estimate the length of a generation before the first."""


class SearchEngine:
    """Engine of CMA-ES.

    A return is the undiscounted sum of an episode's rewards, by which policies are evaluated. The objective's
    gamma is for learners of values: inside transitions alone it would favour many decisions.

    The episodes of a generation are drawn by seed and number of the generation. A checkpoint holds every
    candidate and its loss, with which the search is repeated up to there. These are numbers only, which run
    no code when they are read, as a pickle of `cma` would. So a resumed run finds the same as without a
    break.

    Raises:
        BadInputError: blocks that a priority function needs are not observed, or the initial priority
            function is of another form.
    """

    shortens_all = False
    columns = ("return_mean", "return_best", "sigma", "highest_price")

    def __init__(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int) -> None:
        scenario = feed.scenario
        self.scenario, self.config, self.feed = scenario, config, feed
        self.settings = config.section(Search)
        self.network = config.network
        self.layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
        net = build_policy(self.layout, self.network)
        assert isinstance(net, PriorityNet)
        self.net = net
        self.generation = iteration
        self.steps = self.episodes = 0  # decisions and episodes of all candidates
        self.history: list[tuple[FloatArray, FloatArray]] = []
        """Candidates (candidate, parameters) and their losses (candidate,) of every generation."""
        self.multipliers: dict[str, Control] = {}
        hidden, draws = np.random.SeedSequence(config.seed).spawn(2)
        if self.settings.start is None or iteration:
            start = self._with_random_hidden(net.flat(), np.random.default_rng(hidden))
        else:
            start = initial_parameters(self.layout, self.network, self.settings.start)
            net.set_flat(start)
        self.draws = draws
        self.es = self._new_search(start)
        self.sim = self._simulator(self.settings.population * self.settings.episodes)

    def _simulator(self, envs: int) -> VectorSimulator:
        """Undiscounted simulator with `envs` environments."""
        plain = self.scenario.objective.model_copy(update={"gamma": 1.0})
        undiscounted = self.scenario.model_copy(update={"objective": plain})
        return VectorSimulator(undiscounted, self.feed.units, envs, self.feed.max_jobs)

    @property
    def usual_decisions(self) -> float:
        """See `Engine`; before the first generation it is estimated from similar candidates."""
        steps, episodes = self.steps, self.episodes
        if not episodes:
            rng = np.random.default_rng(self.config.seed)
            chosen, _ = self.feed.stratified(rng, GUESSED)
            spread = self.settings.sigma * self._spread(self.es.mean.size)
            values = self.es.mean + spread * rng.standard_normal((GUESSED, self.es.mean.size))
            _, steps = self.play(values, chosen)
            episodes = GUESSED**2
            if not steps:
                raise BadInputError(
                    "episode",
                    f"nothing is to be decided in {GUESSED} training episodes",
                    "set more jobs (episode.jobs), or more load",
                )
        return self.settings.population * self.settings.episodes * steps / episodes

    def _new_search(self, start: FloatArray) -> Any:
        """CMA-ES before its first generation, around these weights (parameters,).

        Its random numbers are the search's own. From numpy's global generator, by default, any other use
        would change the search, and a resumed run would draw those of its first generations again.
        """
        rng = np.random.default_rng(self.draws)
        return cma.CMAEvolutionStrategy(
            start,
            self.settings.sigma,
            {
                "popsize": self.settings.population,
                "seed": np.nan,  # none: the draws have theirs
                "randn": lambda *shape: rng.standard_normal(shape),
                "CMA_stds": self._spread(len(start)),
                "verbose": -9,
                # A full covariance of many weights is never learned in the time there is.
                "CMA_diagonal": len(start) > 100,
            },
        )

    def _with_random_hidden(self, start: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw input weights of hidden units, whose output weights are 0: equal units would stay equal."""
        features, hidden = len(self.layout.features("jobs")), self.network.priority_units
        inputs = features + len(state_features(self.layout))
        first = len(order_features(self.layout))
        values = start.copy()
        values[first : first + hidden * inputs] = rng.normal(0.0, inputs**-0.5, hidden * inputs)
        return values

    def _spread(self, parameters: int) -> FloatArray:
        """Standard deviations (parameters,) of the first candidates, in units of sigma.

        Several weights, multiplied by the history, are added to each weight of a job's feature. Their sum is
        spread as that weight is.
        """
        spread = np.ones(parameters)
        first, last = len(self.layout.features("jobs")), len(order_features(self.layout))
        spread[first:last] = (last / first - 1) ** -0.5 if last > first else 1.0
        return spread

    def iterate(
        self, run_fraction: float = 0.0, checks: Mapping[str, LimitCheck] | None = None, share: float = 1.0
    ) -> Progress:
        """Run one generation; with a share below 1 every candidate plays fewer episodes."""
        values = np.array(self.es.ask())
        rng = np.random.default_rng([self.config.seed, self.generation])
        count = max(1, int(share * self.settings.episodes))
        episodes, parts = self.feed.stratified(rng, count)
        returns, steps = self.play(values, episodes)
        worth = returns - abs(float(np.median(returns))) * self.charge(episodes, parts)
        self._tell(values, -worth)
        self.net.set_flat(self.es.mean)
        self.generation += 1
        self.steps += steps
        self.episodes += self.sim.num_envs
        row = {
            "return_mean": float(returns.mean()),
            "return_best": float(returns.max()),
            "sigma": float(self.es.sigma),
            "highest_price": max((price.multiplier for price in self.multipliers.values()), default=0.0),
        }
        return Progress(self.steps, row)

    def _tell(self, values: FloatArray, losses: FloatArray) -> None:
        """Update the search with a generation, and store it for the checkpoint."""
        self.es.tell(list(values), losses.tolist())
        self.history.append((values, losses))

    def play(self, values: FloatArray, episodes: list[Episode]) -> tuple[FloatArray, int]:
        """Let every candidate play every episode.

        Args:
            values: (candidate, parameters).
            episodes: for each candidate.

        Returns:
            Mean returns (candidate,), and the number of decisions.
        """
        count = len(episodes)
        if self.sim.num_envs != len(values) * count:
            self.sim = self._simulator(len(values) * count)
        sim = self.sim
        envs = np.arange(sim.num_envs)
        candidates = PriorityCandidates(self.layout, self.network.priority_units, values, envs // count)
        for env in range(sim.num_envs):
            episode = episodes[env % count]
            sim.load(env, episode.jobs, episode.scale, episode.power)
        returns, steps = np.zeros(sim.num_envs), 0
        while True:
            playing = ~(sim.terminated | sim.truncated)
            if not playing.any():
                return returns.reshape(len(values), count).mean(axis=1), steps
            sim.step(candidates.act(sim.obs, sim.mask, envs))
            returns += np.where(playing, sim.reward, 0.0)
            steps += int(playing.sum())

    def charge(self, episodes: list[Episode], parts: IntArray) -> FloatArray:
        """Penalties (candidate,) of hoarding in the newest episodes; also moves the multipliers.

        There is no penalty where episodes may end before all of their jobs: truncated episodes cannot be
        compared. `parts` (episode,) are the parts of the mixture that the episodes are from.
        """
        count, candidates = len(episodes), self.settings.population
        if self.scenario.episode.end != "all_finished":
            return np.zeros(candidates)
        units = self.feed.units
        played = [self.sim.played(env, episodes[env % count].jobs) for env in range(self.sim.num_envs)]
        metrics = [
            measured(self.scenario, units, played[k * count : (k + 1) * count]) for k in range(candidates)
        ]
        reference = by_sjf(self.scenario, units, episodes)
        penalties, self.multipliers = hoarding_penalties(
            self.multipliers, metrics, reference, parts, self.settings.pid
        )
        return penalties

    def policy(self) -> NetworkPolicy:
        """The mean of the distribution, which is better than any one candidate [Hansen 2016]."""
        about = {"algo": self.config.algo, "seed": self.config.seed}
        resources = self.layout.num_resources
        return NetworkPolicy(self.scenario, self.network, self.net, resources, about)

    def save(self, folder: Path) -> None:
        """Write the search so far."""
        folder.mkdir(parents=True)
        population, parameters = self.settings.population, len(self.es.mean)
        values = np.array([values for values, _ in self.history]).reshape(-1, population, parameters)
        losses = np.array([losses for _, losses in self.history]).reshape(-1, population)
        prices = json.dumps({name: price.model_dump() for name, price in self.multipliers.items()})
        start = self.es.x0
        np.savez(
            folder / STATE,
            start=start,
            values=values,
            losses=losses,
            prices=prices,
            steps=self.steps,
            episodes=self.episodes,
        )

    def restore(self, folder: Path, policy: NetworkPolicy) -> None:
        """Restore a saved search: repeat it with the stored losses.

        Raises:
            BadInputError: it is damaged, or of other settings or another version.
        """
        try:
            with np.load(BytesIO((folder / STATE).read_bytes()), allow_pickle=False) as saved:
                if "losses" not in saved:
                    raise ValueError("a pickle, which is not read any more")
                start, values, losses = saved["start"], saved["values"], saved["losses"]
                steps = int(saved["steps"])
                # Older files have no such count, and all of their generations were whole.
                usual = self.generation * self.settings.population * self.settings.episodes
                episodes = int(saved["episodes"]) if "episodes" in saved else usual
                states = json.loads(str(saved["prices"]))
                prices = {name: Control.model_validate(price) for name, price in states.items()}
            if start.shape != self.es.x0.shape:
                raise ValueError(f"{start.size} parameters, not {self.es.x0.size}")
            shape = (self.generation, self.settings.population, start.size)
            if values.shape != shape or losses.shape != shape[:2]:
                raise ValueError(f"losses of {losses.shape} candidates, not of {shape[:2]}")
            if not (np.isfinite(values).all() and np.isfinite(start).all()):
                raise ValueError("candidates that are no numbers")
        except Exception as error:  # a damaged archive can raise anything
            raise BadInputError(
                str(folder / STATE),
                f"is damaged or of another version ({error})",
                f"remove {folder.parent} to resume from the checkpoint before it, or begin another run with "
                f"--set search.start={folder.parents[2]}",
            ) from None
        self.es, self.history = self._new_search(start), []
        for candidates, generation_losses in zip(values, losses, strict=True):
            self.es.ask()  # the same candidates, but for rounding on other machines
            self._tell(candidates, generation_losses)
        self.steps, self.episodes, self.multipliers = steps, episodes, prices
        self.net.set_flat(self.es.mean)

    def stop(self) -> None:
        """Do nothing: there are no processes or files to close."""
