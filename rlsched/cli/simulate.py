"""`rlsched simulate`: run schedulers over a trace or a scenario and compare what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlsched.cli import options, output


def simulate(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME[:RULE],...",
            help="Queue orders ('rlsched policies'), or folders of trained policies.",
        ),
    ] = None,
    backfill: Annotated[
        list[str] | None,
        typer.Option(
            "--backfill",
            "-b",
            metavar="A,B",
            help="none, greedy, easy, conservative (rlscheduler under that protocol), with every order; in "
            "scenarios with a horizon now, horizon, none (their own placement).",
        ),
    ] = None,
    episodes: options.EpisodesOption = None,
    jobs: options.JobsOption = None,
    offsets: options.OffsetsOption = None,
    seed: options.SeedOption = None,
    protocol: options.ProtocolOption = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            metavar="N",
            parser=options.whole_number(1),
            help="Queue orders see only the N oldest waiting jobs (all); trained policies keep their own.",
        ),
    ] = None,
    render: Annotated[
        Path | None,
        typer.Option(
            "--render",
            metavar="OUT.png|OUT.gif",
            help="Draw the first episode under the first two policies; as .gif, in scenarios with a horizon, "
            "film its first 200 ticks under the first policy.",
        ),
    ] = None,
    report: options.ReportOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Run schedulers over a trace or a scenario and compare what comes out.

    Every policy runs the same episodes. A --trace alone is one episode from its first to its last job. With
    --offsets, episodes of --jobs jobs (1,024) start at these rows. With --episodes or --jobs, that many
    episodes (20) of that many jobs (1,024) are drawn at random from the rows that training leaves to
    evaluation, the last fifth. A --scenario says its own length, and draws 20 episodes; one that takes its
    jobs from a trace takes them from --trace, where that is given, too.

    Example: rlsched simulate --trace jobs.swf.gz --policy fcfs,sjf --backfill none,easy
    """
    overrides = set_ or []
    chosen = options.choose_scenario(scenario, trace, overrides, protocol)
    choice = options.choice(
        episodes=episodes,
        jobs=jobs,
        offsets=offsets,
        seed=seed,
        protocol=protocol,
        whole=scenario is None and not options.says_episodes(overrides),
    )
    options.check_window(window, chosen)
    names = options.items(policy) or ["fcfs"]
    targets = output.Targets(json=json, report=report, render=render)
    targets.check(ticks=chosen.decision.horizon is not None)

    from rlsched.cli.checkpoints import loader, seeds_loader
    from rlsched.cli.comparing import compare_and_show
    from rlsched.evaluate.policy_factory import make_policies
    from rlsched.evaluate.policy_names import backfill_rules, policy_specs
    from rlsched.evaluate.session import open_session

    default = "none" if chosen.decision.horizon is None else chosen.decision.placement
    picked = policy_specs("--policy", names, options.items(backfill) or [default], backfill_rules(chosen))
    if trace is None:
        options.check_trace(chosen)
    session = open_session(chosen, choice)
    racing = make_policies("--policy", picked, session, seeds_loader(loader()), window=window)
    compare_and_show(session, racing, targets)
