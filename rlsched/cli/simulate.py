"""`rlsched simulate`: run policies on a trace or a scenario, and compare their results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlsched.cli import options, output

PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME[:RULE],...",
        help="Heuristics ('rlsched policies', default fcfs), or folders of trained policies.",
    ),
]
BackfillOption = Annotated[
    list[str] | None,
    typer.Option(
        "--backfill",
        "-b",
        metavar="A,B",
        help="Rules for every heuristic: none (default), greedy, easy, conservative, or rlscheduler with "
        "that protocol. In scenarios with a planning horizon they are placements: now, horizon, none.",
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(
        "--window",
        metavar="N",
        parser=options.whole_number(1),
        help="Heuristics consider only the N oldest waiting jobs (default all); trained policies keep their "
        "own window.",
    ),
]
RenderOption = Annotated[
    Path | None,
    typer.Option(
        "--render",
        metavar="OUT.png|OUT.gif",
        help="Draw the first episode under the first two policies; .gif: a film of its first 200 ticks under "
        "the first policy, for scenarios with a planning horizon.",
    ),
]


def simulate(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    policy: PolicyOption = None,
    backfill: BackfillOption = None,
    episodes: options.EpisodesOption = None,
    jobs: options.JobsOption = None,
    offsets: options.OffsetsOption = None,
    seed: options.SeedOption = None,
    protocol: options.ProtocolOption = None,
    window: WindowOption = None,
    render: RenderOption = None,
    report: options.ReportOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Run policies on a trace or a scenario, and compare their results.

    All policies run the same episodes. A --trace alone is one episode of all its jobs. With --offsets,
    episodes of --jobs jobs (default 1,024) start at these rows. With --episodes or --jobs, that many episodes
    (default 20) of that many jobs are sampled from the evaluation part of the trace, its last fifth. A
    --scenario has its own episode length, and 20 episodes by default. With --trace, too, its jobs are those
    of the trace.

    Example: rlsched simulate --trace jobs.swf.gz --policy fcfs,sjf --backfill none,easy
    """
    overrides = set_ or []
    chosen = options.choose_scenario(scenario, trace, overrides, protocol)
    sets_episodes = any(override.partition("=")[0].partition(".")[0] == "episode" for override in overrides)
    choice = options.choice(
        episodes=episodes,
        jobs=jobs,
        offsets=offsets,
        seed=seed,
        protocol=protocol,
        whole_trace=scenario is None and not sets_episodes,
    )
    options.check_window(window, chosen)
    targets = output.Targets(json=json, report=report, render=render)
    targets.check(ticks=chosen.decision.tick_driven)

    from rlsched.cli.checkpoints import loader, seeds_loader
    from rlsched.cli.comparison import compare_and_show
    from rlsched.evaluate.policy_factory import make_policies
    from rlsched.evaluate.policy_names import backfill_rules, policy_specs
    from rlsched.evaluate.session import open_session

    names = options.items(policy) or ["fcfs"]
    default = "none" if not chosen.decision.tick_driven else chosen.decision.placement
    specs = policy_specs("--policy", names, options.items(backfill) or [default], backfill_rules(chosen))
    if trace is None:
        options.check_trace(chosen)
    session = open_session(chosen, choice)
    policies = make_policies("--policy", specs, session, seeds_loader(loader()), window=window)
    compare_and_show(session, policies, targets)
