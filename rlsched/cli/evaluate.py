"""`rlsched evaluate`: compare trained policies with the best heuristics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.cli.checkpoints import BySeed
    from rlsched.evaluate.policy_names import PolicySpec
    from rlsched.evaluate.session import Session
    from rlsched.scenario import Scenario

FAILS_GATE = 3
"""Exit code if a policy fails the gate."""

CheckpointsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="CHECKPOINT...",
        help="Run folders, folders of seeds ('rlsched train --seeds'), checkpoints, exported policies.",
    ),
]
AgainstOption = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        "-a",
        metavar="NAME[:RULE],...",
        help="Heuristics, with a backfilling rule (default greedy), or other trained policies. By default "
        "the heuristics of validation (greedy, EASY, conservative).",
    ),
]
SampleOption = Annotated[
    bool, typer.Option("--sample", help="Sample actions instead of taking the most likely one.")
]
GateOption = Annotated[
    bool,
    typer.Option(
        "--gate",
        help="Check that each policy is fit to act: not worse than the best heuristic, no hoarding, limits "
        "met. The exit code is 3 if a policy fails.",
    ),
]


def evaluate(
    checkpoint: CheckpointsArgument,
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    against: AgainstOption = None,
    episodes: options.EpisodesOption = None,
    jobs: options.JobsOption = None,
    offsets: options.OffsetsOption = None,
    seed: options.SeedOption = None,
    protocol: options.ProtocolOption = None,
    sample: SampleOption = False,
    window: options.WindowOption = None,
    gate: GateOption = False,
    report: options.ReportOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Compare trained policies with the best heuristics, on the same episodes.

    Policies keep the decision rules and observations of their training. Cluster and jobs are those of
    --scenario or --trace or both, or else of the training scenario; episodes are not training episodes. A
    policy with network.kind=job_scorer, the default, also runs on clusters of other sizes, and with --window
    on longer queues. Where all jobs are completed, greedy sjf always runs, as the reference for hoarding.

    With --gate a policy fails if it is worse than the best heuristic in the first metric, by a 95 % interval
    of the paired difference. It also fails if it hoards, or exceeds a limit of its training. Policies of a
    folder of seeds are compared as one: means, intervals and wins are over seeds and episodes.

    Example: rlsched evaluate runs/first --episodes 50 --report runs/first/report
    """
    choice = options.choice(
        episodes=episodes, jobs=jobs, offsets=offsets, seed=seed, protocol=protocol, whole_trace=False
    )
    targets = output.Targets(json=json, report=report)
    targets.check()

    from rlsched.cli.checkpoints import check_exists, loader, seeds_loader
    from rlsched.cli.comparison import compare_and_show
    from rlsched.evaluate.policy_factory import make_policies
    from rlsched.evaluate.policy_names import PolicySpec, check_policies
    from rlsched.evaluate.session import open_session

    named = options.items(against)
    check_policies("--against", named)
    for path in checkpoint:
        check_exists(path)
    load = seeds_loader(loader(sample=sample, seed=seed or 0, window=window))
    trained = {path.rstrip("/") or path: load(path) for path in checkpoint}
    chosen = _scenario(trained, scenario, trace, set_ or [])
    options.check_overrides(set_ or [], chosen, protocol)
    session = open_session(chosen, choice)
    rivals = _rivals(named, chosen, session, trained)
    if window is not None:
        _print_windows(targets.console, trained, window)
    if gate:
        _check_gate(session, rivals)
    specs = [PolicySpec(path) for path in trained] + rivals
    policies = make_policies("--against", specs, session, load)
    if not compare_and_show(session, policies, targets, gate=gate):
        raise typer.Exit(FAILS_GATE)


def _rivals(
    named: Sequence[str], scenario: Scenario, session: Session, trained: Mapping[str, BySeed]
) -> list[PolicySpec]:
    """Policies to compare with: those of `--against`, or the heuristics of validation; and greedy sjf."""
    from rlsched.evaluate.hoarding import hoarding_applies
    from rlsched.evaluate.policy_names import PolicySpec, backfill_rules, policy_specs
    from rlsched.evaluate.references import greedy_sjf, heuristics

    reference = greedy_sjf(scenario)
    rivals = [PolicySpec(*known) for known in heuristics(scenario)]
    if named:
        rivals = policy_specs("--against", named, [reference.backfill], backfill_rules(scenario))
    rivals = [spec for spec in rivals if spec.name not in trained]
    if hoarding_applies(session.scenario) and PolicySpec(*reference) not in rivals:
        rivals.append(PolicySpec(*reference))
    return rivals


def _print_windows(console: Console, trained: Mapping[str, BySeed], window: int) -> None:
    """Tell where a policy runs with another window than in training."""
    for path, policies in trained.items():
        before = next(iter(policies.values())).about.get("trained_window")
        if before is not None:
            line = f"{path} sees the first {window:,} waiting jobs; in training they were {before:,}"
            console.print(line)


def _check_gate(session: Session, rivals: Sequence[PolicySpec]) -> None:
    """Refuse a gate without enough episodes or without a heuristic, before anything runs.

    Raises:
        BadInputError: there are too few episodes, or no heuristic.
    """
    from rlsched.evaluate.gate import check_episodes

    remedy = "set --episodes, and fewer --jobs where the trace is short"
    check_episodes([episode.offset for episode in session.episodes], remedy)
    if all(entry.rule is None for entry in rivals):
        raise BadInputError(
            "--gate", "no heuristic is in the comparison", "name one with --against, as in --against sjf:easy"
        )


def _scenario(
    trained: Mapping[str, BySeed], scenario: str | None, trace: Path | None, overrides: list[str]
) -> Scenario:
    """The scenario of the options, or else that of the policies' training."""
    from rlsched.evaluate.policy_factory import shared_scenario
    from rlsched.evaluate.seeds import seed_folder
    from rlsched.scenario import parse

    if trace is not None:
        return options.given_scenario(scenario, trace, overrides)
    if scenario is not None:
        chosen = options.named_scenario("--scenario", scenario, overrides)
    else:
        policies_by_path = [
            (path if seed is None else str(seed_folder(Path(path), seed)), policy)
            for path, policies in trained.items()
            for seed, policy in policies.items()
        ]
        shared = shared_scenario(policies_by_path)
        chosen = parse(shared.model_dump(mode="json"), "policy", overrides)
    options.check_trace(chosen)
    return chosen
