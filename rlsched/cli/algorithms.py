"""`rlsched algorithms`: what can learn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import get_args

from rlsched.cli import options, output


@dataclass(frozen=True)
class Entry:
    """What a learning algorithm is.

    Attributes:
        section: of the training settings that is its own.
        doc: what it is.
        source: whose it is.
    """

    section: str
    doc: str
    source: str


ENTRIES = {
    "ppo": Entry(
        "ppo",
        "proximal policy optimisation of a network, from live rollouts by Ray RLlib",
        "Schulman et al. 2017",
    ),
    "appo": Entry(
        "appo",
        "the same while runners play on, corrected for the age of the policy that played, by Ray RLlib",
        "Luo et al. 2020; Espeholt et al. 2018",
    ),
    "dqn": Entry(
        "dqn",
        "deep Q-learning, double and dueling, from uniform replay, by Ray RLlib",
        "Mnih et al. 2015; van Hasselt et al. 2016; Wang et al. 2016",
    ),
    "cocorl": Entry(
        "cocorl",
        "ppo that is refused without limits of costs; each has a multiplier under the control of a PID "
        "controller",
        "Venkataswamy 2023; Stooke et al. 2020",
    ),
    "reinforce": Entry(
        "reinforce",
        "policy gradient of a network against the mean of trajectories of the same jobs, of all or of those "
        "of each worker; needs no Ray",
        "Williams 1992; Mao et al. 2016; Cunha 2022",
    ),
    "priority_search": Entry(
        "search",
        "a score of jobs, linear or with network.priority_units hidden units, found by CMA-ES on whole "
        "episodes; needs no Ray",
        "Carastan-Santos and de Camargo 2017; Hansen 2016",
    ),
    "bc": Entry(
        "bc",
        "behavioural cloning: a network learns to choose what the behaviours of a dataset chose; --dataset",
        "Pomerleau 1989",
    ),
    "marwil": Entry(
        "marwil",
        "the same, more so where more was earned than expected; --dataset",
        "Wang et al. 2018",
    ),
    "cql": Entry(
        "cql",
        "conservative Q-learning among actions, double and dueling: learns what would have been better, and "
        "trusts only what the dataset shows; --dataset",
        "Kumar et al. 2020",
    ),
    "rare": Entry(
        "rare",
        "an actor and twin critics on one encoder: with --dataset the actor does what critics think is best "
        "that trust what was shown, or critic-regularised regression; from play it goes by what came of its "
        "decisions, or soft actor-critic",
        "Venkataswamy 2023; Kumar et al. 2020; Wang et al. 2020; Schulman et al. 2017; Christodoulou 2019",
    ),
    "launchpad": Entry(
        "launchpad",
        "the same, from a dataset first and then from play, with the settings of rare beside; --dataset",
        "Venkataswamy 2023; Ball et al. 2023",
    ),
}


def algorithms(json: options.JsonOption = None) -> None:
    """List the learning algorithms for --algo, with their settings and defaults.

    Example: rlsched train --scenario lublin-256 --algo ppo --set ppo.learning_rate=3e-4
    """
    from rlsched.learn.config.training import Algorithm, TrainConfig

    config = TrainConfig()
    rows = []
    for name in get_args(Algorithm):
        entry = ENTRIES[name]
        settings = getattr(config, entry.section).model_dump(mode="json")
        rows.append({"name": name, **asdict(entry), "settings": settings})
    if json is not None:
        output.list_json(json, "algorithms", rows)
        return
    from rlsched.cli.tables import plain_table

    table = plain_table(None, ["algorithm", "what it is", "source", "settings (--set NAME=VALUE)"])
    for row in rows:
        settings = ", ".join(f"{row['section']}.{key}={value}" for key, value in row["settings"].items())
        table.add_row(row["name"], row["doc"], row["source"], settings)
    output.console().print(table)
