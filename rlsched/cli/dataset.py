"""`rlsched dataset`: describe, check, mix and split datasets, and judge policies by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.cli.dataset_tables import (
    behaviors_table,
    judgement_json,
    judgement_table,
    megabytes,
    warnings,
)
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rlsched.offline.manifest import Manifest
    from rlsched.scenario import Scenario

app = typer.Typer(
    help="Describe, check, mix and split datasets, and judge policies by them.", no_args_is_help=True
)

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a dataset.")]
NewFolderOption = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new dataset.")]
PoliciesArgument = Annotated[
    list[str], typer.Argument(metavar="POLICY...", help="Run folders, checkpoints, exported policies.")
]
GammaOption = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        parser=options.discount,
        help="Discount per tick (default: that of the dataset's objective). A lower one gives narrower "
        "intervals, but ignores late rewards.",
    ),
]
SampleOption = Annotated[
    bool, typer.Option("--sample", help="Sample actions instead of taking the most likely one.")
]


@app.command("info")
def info(folder: FolderArgument, json: options.JsonOption = None) -> None:
    """Show the size of a dataset, its policies and their results.

    Example: rlsched dataset info runs/mixed
    """
    from rlsched.offline.manifest import read_manifest

    targets = output.Targets(json).check()
    dataset = read_manifest(folder)
    targets.write({"folder": str(folder), **dataset.model_dump(mode="json")})
    if json is not None:
        return
    shape = dataset.shape
    console = targets.console
    console.print(f"{dataset.origin}; scenario {dataset.scenario.name}")
    console.print(
        f"{dataset.rows:,} decisions in {dataset.episodes:,} episodes, {len(dataset.shards)} shards of "
        f"{megabytes(dataset):,.1f} MB; observations of {shape.size} numbers, {shape.actions} actions"
    )
    console.print(behaviors_table(dataset))


@app.command("check")
def check(folder: FolderArgument, json: options.JsonOption = None) -> None:
    """Check every row of a dataset: checksums, columns, numbers, masks, and the order of episodes.

    The exit code is 2 if something is wrong; the error names the shard and the row.

    Example: rlsched dataset check runs/mixed
    """
    from rlsched.offline.check import check as find_problems
    from rlsched.offline.manifest import read_manifest

    targets = output.Targets(json).check()
    dataset = read_manifest(folder)
    with output.progress("checking", dataset.rows) as step:
        problems = find_problems(folder, dataset, step)
    rows = [{"shard": p.shard, "row": p.row, "problem": p.problem} for p in problems]
    targets.write({"folder": str(folder), "rows": dataset.rows, "problems": rows})
    console = targets.console
    for problem in problems[1:]:
        console.print(str(problem), style="red")
    if problems:
        broken = f"{len(problems)} of {len(dataset.shards)} shards broken: " if len(problems) > 1 else ""
        raise BadInputError(
            str(folder), f"{broken}{problems[0]}", "copy the shard again, or collect the dataset again"
        )
    console.print(
        f"whole: {dataset.rows:,} decisions in {dataset.episodes:,} episodes and {len(dataset.shards)} shards"
    )


@app.command("judge")
def judge(
    folder: FolderArgument,
    policy: PoliciesArgument,
    gamma: GammaOption = None,
    sample: SampleOption = False,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Estimate the return of policies from a dataset alone (off-policy evaluation).

    fqe: fitted Q evaluation; wis: weighted importance sampling. Both are discounted returns of episodes, with
    95 % intervals. Also shown: how often a policy agrees with the recorded ones, and the share of its actions
    that are unlike the data.

    Example: rlsched dataset judge runs/mixed runs/clone runs/first
    """
    targets = output.Targets(json).check()
    from rlsched.cli.checkpoints import check_exists, loader
    from rlsched.offline.behavior import check_trained
    from rlsched.offline.estimate import FITS
    from rlsched.offline.estimate import judge as estimate
    from rlsched.offline.manifest import read_manifest

    for path in policy:
        check_exists(path, "needs whole queues, which datasets do not have: judge a clone of it (--algo bc)")
    dataset = read_manifest(folder)
    load = loader()
    policies = {path.rstrip("/") or path: load(path) for path in policy}
    scenario = dataset.scenario
    for name, trained in policies.items():
        check_trained("POLICY", name, trained, scenario, len(scenario.cluster.resources))
    totals = {"reading": dataset.rows, "fitting": len(policies) * FITS}
    with output.stages(totals) as (step, fitted):
        judgement = estimate(
            folder,
            dataset,
            policies,
            gamma=_discount(gamma, scenario),
            sample=sample,
            seed=seed or 0,
            progress=step,
            fitted=fitted,
        )
    targets.write({"folder": str(folder), "episodes": dataset.episodes, **judgement_json(judgement)})
    console = targets.console
    console.print(judgement_table(judgement))
    for name, of_policy in judgement.policies.items():
        for warning in warnings(of_policy, chances=judgement.chances):
            console.print(f"{name}: {warning}", style="yellow")


def _discount(gamma: float | None, scenario: Scenario) -> float:
    """The discount of estimates.

    Raises:
        BadInputError: rewards were recorded with another discount.
    """
    recorded = scenario.objective.gamma
    if gamma not in (None, recorded) and "started_value" in scenario.objective.reward:
        raise BadInputError(
            "--gamma",
            f"value {gamma:g} is not the {recorded:g} with which started_value was recorded",
            "remove it, or record with --set objective.gamma=G",
        )
    return recorded if gamma is None else gamma


@app.command("mix")
def mix(
    parts: Annotated[
        list[str],
        typer.Argument(metavar="DIR[:SHARE]...", help="Datasets, each with its share of rows (default 1)."),
    ],
    out: NewFolderOption,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=options.whole_number(1),
            help="Least number of decisions (default: as many as the shares allow).",
        ),
    ] = None,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make one dataset from several, by sampling whole episodes.

    The datasets must agree in cluster, decision, observation and objective. The new dataset takes workload,
    power and episodes of its scenario from the first dataset. Policies are validated in that scenario, or in
    the one of `rlsched train --scenario`.

    Example: rlsched dataset mix runs/qos:0.7 runs/random:0.3 --out runs/mixed
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.rewrite import Part, Source, check_compatible, choose_mix, rewrite, scenario_note

    targets = output.Targets(json).check()
    DatasetFolder(out).check_free()
    output.check_folder("--out", out)
    named = shares("DIR[:SHARE]", parts)
    many = len(named) > 1
    sources = [
        Source(Path(name), read_manifest(Path(name)), f"{number}-" if many else "")
        for number, name in enumerate(named)
    ]
    check_compatible(sources)
    chosen = choose_mix(sources, list(named.values()), steps, seed or 0)
    mixed = ", ".join(f"{name} ({share:g})" for name, share in named.items())
    origin, first = f"mixed of {mixed} with seed {seed or 0}", scenario_note(sources)
    with output.progress("mixing", sum(source.manifest.rows for source in sources)) as step:
        (dataset,) = rewrite(sources, [Part(out, chosen, ", ".join(filter(None, [origin, first])))], step)
    if first:
        targets.console.print(f"note         {first}; rlsched train --scenario sets another one")
    _print_datasets({str(out): dataset}, targets)


@app.command("split")
def split(
    folder: FolderArgument,
    parts: Annotated[
        list[str],
        typer.Argument(metavar="NAME[:SHARE]...", help="Parts, each with its share of the episodes."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the parts, which are folders in it.")],
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Split a dataset at random, by whole episodes.

    Example: rlsched dataset split runs/mixed train:0.9 test:0.1 --out runs/split
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.rewrite import Part, Source, choose_split, rewrite

    targets = output.Targets(json).check()
    named = shares("NAME[:SHARE]", parts)
    for name in named:
        if not name or "/" in name or name.startswith("."):
            raise BadInputError("NAME[:SHARE]", f"{name!r} is not a folder name", "write NAME[:SHARE]")
        DatasetFolder(out / name).check_free()
    output.check_folder("--out", out)
    source = Source(folder, read_manifest(folder))
    chosen = choose_split(source, named, seed or 0)
    wanted = [
        Part(out / name, [episodes], f"{name} of {folder} ({named[name]:g}) with seed {seed or 0}")
        for name, episodes in chosen.items()
    ]
    with output.progress("splitting", source.manifest.rows) as step:
        made = rewrite([source], wanted, step)
    _print_datasets({str(part.folder): dataset for part, dataset in zip(wanted, made, strict=True)}, targets)


def shares(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Names and their shares from `NAME[:SHARE]`.

    Raises:
        BadInputError: a share is not a number above 0, or a name is given twice.
    """
    from rlsched.offline.recipe import parse_share

    named: dict[str, float] = {}
    for text in texts:
        name, share = parse_share(option, text)
        if name in named:
            raise BadInputError(option, f"{name!r} is given twice", "name it once")
        named[name] = share
    return named


def _print_datasets(made: dict[str, Manifest], targets: output.Targets) -> None:
    datasets = [{"folder": name, **dataset.model_dump(mode="json")} for name, dataset in made.items()]
    targets.write({"datasets": datasets})
    console = targets.console
    for name, dataset in made.items():
        console.print(behaviors_table(dataset))
        console.print(f"dataset      {name} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(next(iter(made)))}")
