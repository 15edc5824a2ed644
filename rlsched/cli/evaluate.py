"""`rlsched evaluate`: hold trained policies against the best known queue orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.cli.checkpoints import BySeed
    from rlsched.evaluate.policy_names import PolicySpec
    from rlsched.evaluate.session import Session
    from rlsched.scenario import Scenario

STANDS_BACK = 3
"""Exit code where a policy does not pass the gate."""


def evaluate(
    checkpoint: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINT...",
            help="Run folders, folders of seeds ('rlsched train --seeds'), checkpoints, exported policies.",
        ),
    ],
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            "-a",
            metavar="NAME[:RULE],...",
            help="Queue orders, with a backfilling rule (greedy), or further trained policies. "
            "Left out: the heuristics of validation (greedy, EASY, conservative).",
        ),
    ] = None,
    episodes: options.EpisodesOption = None,
    jobs: options.JobsOption = None,
    offsets: options.OffsetsOption = None,
    seed: options.SeedOption = None,
    protocol: options.ProtocolOption = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw actions instead of taking the most likely one.")
    ] = False,
    window: options.SeenOption = None,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate",
            help="Say of each policy whether it may act: not worse than the best heuristic, no hoarding, "
            "limits kept. Exit code 3 where one stands back.",
        ),
    ] = False,
    report: options.ReportOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Compare trained policies with the best known heuristics, on the same episodes.

    A policy keeps the decision rules and observations it was trained with; cluster and jobs are those of
    --scenario or --trace or both, or else of the scenario it was trained for. Episodes are never ones it was
    trained on, unless you name such rows. A policy that scores every job alike, as they do by default, also
    plays on clusters of another size and, with --window, on queues of another length. Where all jobs run to
    their end, greedy sjf always runs too: against it is judged whether a policy only pushes long jobs out of
    sight.

    With --gate a policy stands back where the interval of its difference to the best heuristic lies wholly on
    the bad side, in the metric shown first, where it hoards, or where it breaks a limit of its training.

    Policies of a folder of seeds are compared as one: means, intervals and wins are those of all seeds and
    episodes.

    Example: rlsched evaluate runs/first --episodes 50 --report runs/first/report
    """
    overrides = set_ or []
    choice = options.choice(
        episodes=episodes, jobs=jobs, offsets=offsets, seed=seed, protocol=protocol, whole=False
    )
    targets = output.Targets(json=json, report=report)
    targets.check()

    from rlsched.cli.checkpoints import check_exists, loader, seeds_loader
    from rlsched.cli.comparing import compare_and_show
    from rlsched.evaluate.hoarding import hoarding_applies
    from rlsched.evaluate.policy_factory import make_policies
    from rlsched.evaluate.policy_names import (
        PolicySpec,
        backfill_rules,
        check_policies,
        policy_specs,
        with_reference,
    )
    from rlsched.evaluate.references import greedy_sjf, heuristics
    from rlsched.evaluate.session import open_session

    named = options.items(against)
    check_policies("--against", named)
    for path in checkpoint:
        check_exists(path)
    load = seeds_loader(loader(sample=sample, seed=seed or 0, window=window))
    trained = {path.rstrip("/") or path: load(path) for path in checkpoint}
    chosen = _scenario(trained, scenario, trace, overrides)
    options.check_overrides(overrides, chosen, protocol)
    reference = greedy_sjf(chosen)
    rivals = [PolicySpec(*known) for known in heuristics(chosen)]
    if named:
        rivals = policy_specs("--against", named, [reference.backfill], backfill_rules(chosen))
    session = open_session(chosen, choice)
    rivals = [entry for entry in rivals if entry.name not in trained]
    if hoarding_applies(session.scenario):
        rivals = with_reference(rivals, PolicySpec(*reference))
    console = output.people(json)
    for path, policies in trained.items() if window is not None else ():
        if (before := next(iter(policies.values())).about.get("trained_window")) is not None:
            line = f"{path} sees the first {window:,} waiting jobs; in training they were {before:,}"
            console.print(line, markup=False)
    if gate:
        _check_gate(session, rivals)
    picked = [PolicySpec(path) for path in trained] + rivals
    racing = make_policies("--against", picked, session, load)
    if not compare_and_show(session, racing, targets, gate=gate):
        raise typer.Exit(STANDS_BACK)


def _check_gate(session: Session, rivals: Sequence[PolicySpec]) -> None:
    """Refuse a gate that could not say anything, before anything runs.

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
    """What is evaluated on: what was named, or else what the policies were trained for."""
    from rlsched.evaluate.policy_factory import shared_scenario
    from rlsched.evaluate.seeds import seed_folder
    from rlsched.scenario import parse

    if trace is not None:
        return options.given_scenario(scenario, trace, overrides)
    if scenario is not None:
        chosen = options.named_scenario("--scenario", scenario, overrides)
    else:
        everyone = [
            (path if seed is None else str(seed_folder(Path(path), seed)), policy)
            for path, policies in trained.items()
            for seed, policy in policies.items()
        ]
        own = shared_scenario(everyone)
        chosen = parse(own.model_dump(mode="json"), "policy", overrides)
    options.check_trace(chosen)
    return chosen
