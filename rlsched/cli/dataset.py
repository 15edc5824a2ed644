"""`rlsched dataset`: describe, check, mix and split what was recorded, and judge policies by it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.table import Table

    from rlsched.evaluate.bootstrap import Interval
    from rlsched.offline.estimate import Estimate, Judgement
    from rlsched.offline.manifest import Manifest

UNLIKE_SHARE, FEW_EPISODES = 0.05, 10.0
"""More of a policy's choices unlike anything recorded, or fewer episodes like its own, are to be said."""

app = typer.Typer(
    help="Describe, check, mix and split datasets, and judge policies by them.", no_args_is_help=True
)

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a dataset.")]


@app.command("info")
def info(folder: FolderArgument, json: options.JsonOption = None) -> None:
    """Say what is in a dataset: who decided, how much of it there is, and what it came to.

    Example: rlsched dataset info runs/mixed
    """
    from rlsched.offline.manifest import read_manifest

    output.Targets(json=json).check()
    dataset = read_manifest(folder)
    if json is not None:
        output.write_json(json, {"schema": 1, "folder": str(folder), **dataset.model_dump(mode="json")})
        return
    shape = dataset.shape
    console = output.console()
    console.print(f"{dataset.origin}; scenario {dataset.scenario.name}")
    console.print(
        f"{dataset.rows:,} decisions in {dataset.episodes:,} episodes, {len(dataset.shards)} shards of "
        f"{megabytes(dataset):,.1f} MB; {shape.size} numbers seen, {shape.actions} actions"
    )
    console.print(behaviors_table(dataset))


@app.command("check")
def check(folder: FolderArgument, json: options.JsonOption = None) -> None:
    """Look at every row: checksums, columns, numbers, masks, and that episodes go on from row to row.

    Exit code 2 where something is wrong, with the shard and the row.

    Example: rlsched dataset check runs/mixed
    """
    from rlsched.offline.check import check as look
    from rlsched.offline.manifest import read_manifest

    output.Targets(json=json).check()
    dataset = read_manifest(folder)
    with output.progress("checking", dataset.rows) as shown:
        problems = look(folder, dataset, shown)
    if json is not None:
        found = [{"shard": one.shard, "row": one.row, "problem": one.problem} for one in problems]
        output.write_json(json, {"schema": 1, "folder": str(folder), "rows": dataset.rows, "problems": found})
    console = output.people(json)
    for problem in problems[1:]:
        console.print(str(problem), style="red")
    if problems:
        broken = f"{len(problems)} of {len(dataset.shards)} shards broken: " if len(problems) > 1 else ""
        raise BadInputError(
            str(folder), f"{broken}{problems[0]}", "fetch the shard again, or collect the dataset again"
        )
    console.print(
        f"whole: {dataset.rows:,} decisions in {dataset.episodes:,} episodes and {len(dataset.shards)} shards"
    )


@app.command("judge")
def judge(
    folder: FolderArgument,
    policy: Annotated[
        list[str], typer.Argument(metavar="POLICY...", help="Run folders, checkpoints, exported policies.")
    ],
    gamma: Annotated[
        float | None,
        typer.Option(
            metavar="G",
            parser=options.discount,
            help="Discount per tick; left out: that of the dataset's objective. With less, estimates are "
            "surer and say less of what comes late.",
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Policies draw actions instead of taking the most likely one.")
    ] = False,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Estimate what policies would earn, from a dataset alone: before they ever decide anything.

    fqe: fitted Q evaluation; wis: weighted importance sampling; both with 95 % intervals, of what is earned
    from the beginning of an episode, discounted. Beside them how often a policy decides as those who were
    recorded, and how far its choices are unlike anything recorded.

    Example: rlsched dataset judge runs/mixed runs/clone runs/first
    """
    output.Targets(json=json).check()
    from rlsched.cli.checkpoints import check_exists, loader
    from rlsched.offline.behavior import check_trained
    from rlsched.offline.estimate import FITS
    from rlsched.offline.estimate import judge as estimate
    from rlsched.offline.manifest import read_manifest

    of_orders = "sees whole queues, which no dataset holds: judge a clone of it (--algo bc)"
    for path in policy:
        check_exists(path, of_orders)
    dataset = read_manifest(folder)
    load = loader()
    policies = {path.rstrip("/") or path: load(path) for path in policy}
    scenario = dataset.scenario
    own = scenario.objective.gamma
    if gamma not in (None, own) and "started_value" in scenario.objective.reward:
        raise BadInputError(
            "--gamma",
            f"value {gamma:g} is not the {own:g} by which started_value was recorded",
            "leave it out, or record with --set objective.gamma=G",
        )
    for name, one in policies.items():
        check_trained("POLICY", name, one, scenario, len(scenario.cluster.resources))
    fits = len(policies) * FITS
    with output.stages({"reading": dataset.rows, "fitting": fits}) as (shown, fitted):
        found = estimate(
            folder,
            dataset,
            policies,
            gamma=own if gamma is None else gamma,
            sample=sample,
            seed=seed or 0,
            progress=shown,
            fitted=fitted,
        )
    if json is not None:
        told = {"schema": 1, "folder": str(folder), "episodes": dataset.episodes, **judgement(found)}
        output.write_json(json, told)
    console = output.people(json)
    console.print(judgement_table(found))
    for name, estimated in found.policies.items():
        for warning in warnings(estimated, chances=found.chances):
            console.print(f"{name}: {warning}", style="yellow")


def judgement(found: Judgement) -> dict[str, Any]:
    """As plain values; what cannot be said is null."""

    def told(value: Interval) -> dict[str, float | None]:
        return {name: part if isfinite(part) else None for name, part in value._asdict().items()}

    return {
        "gamma": found.gamma,
        "recorded": told(found.recorded),
        "policies": {
            name: {
                "fqe": told(one.fqe),
                "over": told(one.over),
                "wis": told(one.wis),
                "effective_episodes": one.effective,
                "agreement": one.agreement,
                "unlike": one.unlike,
                "warnings": warnings(one, chances=found.chances),
            }
            for name, one in found.policies.items()
        },
    }


def warnings(found: Estimate, *, chances: bool) -> list[str]:
    """Where a dataset, which knows the chances of what was done or not, says too little of a policy."""
    said = []
    if found.unlike > UNLIKE_SHARE:
        said.append(
            f"{found.unlike:.0%} of its choices are unlike anything recorded: fqe guesses what they are worth"
        )
    if not chances:
        said.append("nobody wrote down how likely the recorded choices were: wis cannot say anything")
    elif not isfinite(found.wis.mean):
        said.append("no recorded episode goes on as it would: wis cannot say anything")
    elif found.effective < FEW_EPISODES:
        said.append(f"wis rests upon {found.effective:.1f} episodes: hardly any goes on as it would")
    return said


def judgement_table(found: Judgement) -> Table:
    """Policies, the best first by fqe, and who was recorded."""
    from rlsched.cli.tables import plain_table

    columns = ["policy", "fqe", "over recorded", "wis", "episodes", "does the same as", "unlike"]
    table = plain_table(
        f"earned from the beginning of an episode, discounted by {found.gamma:g} a tick",
        columns,
        right=("episodes", "unlike"),
    )

    def written(value: Interval) -> str:
        if not isfinite(value.mean):
            return "-"
        return f"{value.mean:,.4g} [{value.low:,.4g}, {value.high:,.4g}]"

    for name, one in sorted(found.policies.items(), key=lambda item: -item[1].fqe.mean):
        same = ", ".join(f"{behavior} {share:.1%}" for behavior, share in one.agreement.items())
        table.add_row(
            name,
            written(one.fqe),
            written(one.over),
            written(one.wis),
            f"{one.effective:,.1f}",
            same,
            f"{one.unlike:.1%}",
        )
    table.add_row("(recorded)", written(found.recorded), "", "", "", "", "")
    return table


@app.command("mix")
def mix(
    parts: Annotated[
        list[str],
        typer.Argument(metavar="DIR[:SHARE]...", help="Datasets, each with its share of the rows (1)."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new dataset.")],
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=options.whole_number(1),
            help="Decisions at least; left out: as many as the shares allow.",
        ),
    ] = None,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make one dataset of several, by whole episodes drawn at random.

    They must agree in cluster, decision, observation and objective. Workload, power and episodes of the
    scenario that it names, and that policies are validated in, are those of the first; `rlsched train
    --scenario` names another one.

    Example: rlsched dataset mix runs/qos:0.7 runs/random:0.3 --out runs/mixed
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.rewrite import Part, Source, check_compatible, choose_mix, rewrite, scenario_note

    output.Targets(json=json).check()
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
    said = ", ".join(f"{name} ({share:g})" for name, share in named.items())
    origin, first = f"mixed of {said} with seed {seed or 0}", scenario_note(sources)
    with output.progress("mixing", sum(source.manifest.rows for source in sources)) as shown:
        (dataset,) = rewrite(sources, [Part(out, chosen, ", ".join(filter(None, [origin, first])))], shown)
    if first:
        output.people(json).print(f"note         {first}; rlsched train --scenario names another one")
    _tell({str(out): dataset}, json)


@app.command("split")
def split(
    folder: FolderArgument,
    parts: Annotated[
        list[str],
        typer.Argument(metavar="NAME[:SHARE]...", help="Parts, each with its share of the episodes."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder in which each part gets its own.")],
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
) -> None:
    """Deal the episodes of a dataset out to several, at random.

    Example: rlsched dataset split runs/mixed train:0.9 test:0.1 --out runs/split
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.rewrite import Part, Source, choose_split, rewrite

    output.Targets(json=json).check()
    named = shares("NAME[:SHARE]", parts)
    for name in named:
        if not name or "/" in name or name.startswith("."):
            raise BadInputError("NAME[:SHARE]", f"{name!r} is no name of a folder", "write NAME[:SHARE]")
        DatasetFolder(out / name).check_free()
    output.check_folder("--out", out)
    source = Source(folder, read_manifest(folder))
    chosen = choose_split(source, named, seed or 0)
    wanted = [
        Part(out / name, [episodes], f"{name} of {folder} ({named[name]:g}) with seed {seed or 0}")
        for name, episodes in chosen.items()
    ]
    with output.progress("splitting", source.manifest.rows) as shown:
        made = rewrite([source], wanted, shown)
    _tell({str(part.folder): dataset for part, dataset in zip(wanted, made, strict=True)}, json)


def shares(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Names and their shares from `NAME[:SHARE]`.

    Raises:
        BadInputError: a share is no number above 0, or a name is given twice.
    """
    from rlsched.offline.recipe import parse_share

    found: dict[str, float] = {}
    for text in texts:
        name, share = parse_share(option, text)
        if name in found:
            raise BadInputError(option, f"{name!r} is given twice", "name each once")
        found[name] = share
    return found


def behaviors_table(dataset: Manifest) -> Table:
    """What each behaviour did."""
    from rlsched.cli.tables import plain_table
    from rlsched.offline.card import metric_names

    names = metric_names(dataset)
    table = plain_table(None, ["behavior", "episodes", "decisions", "return", *names])
    for one in dataset.behaviors:
        means = [f"{one.metrics[name].mean:.4g}" if name in one.metrics else "" for name in names]
        table.add_row(one.behavior, f"{one.episodes:,}", f"{one.rows:,}", f"{one.reward.mean:.5g}", *means)
    return table


def megabytes(dataset: Manifest) -> float:
    """Of all shards."""
    return sum(shard.bytes for shard in dataset.shards) / 1e6


def _tell(made: dict[str, Manifest], json: str | None) -> None:
    if json is not None:
        datasets = [{"folder": name, **one.model_dump(mode="json")} for name, one in made.items()]
        output.write_json(json, {"schema": 1, "datasets": datasets})
    console = output.people(json)
    for name, dataset in made.items():
        console.print(behaviors_table(dataset))
        console.print(f"dataset      {name} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(next(iter(made)))}", markup=False)
