"""`rlsched dataset import` and `export`: exchange of datasets with other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.cli.dataset import FolderArgument, NewFolderOption
from rlsched.cli.dataset_tables import behaviors_table, megabytes
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.offline.importing import Imported
    from rlsched.offline.minari_store import MinariEpisodes
    from rlsched.offline.parquet_log import ParquetEpisodes
    from rlsched.scenario import Scenario

MinariOption = Annotated[
    str, typer.Option(metavar="ID", help="Name of the Minari dataset, as in rlsched/green-10/mixed-v0.")
]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A Parquet file, a folder of them, or the name of a Minari dataset."
    ),
]
BehaviorOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the recorded policy (default: as in SOURCE).")
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OURS=THEIRS",
        help="Name of a column in a Parquet source, as in obs=observation. Repeatable.",
    ),
]


def export(folder: FolderArgument, minari: MinariOption, json: options.JsonOption = None) -> None:
    """Write a dataset as a Minari dataset, for d3rlpy, TorchRL and others; observations as with flat=True.

    It is written where Minari looks for it: ~/.minari/datasets, or MINARI_DATASETS_PATH.

    Example: rlsched dataset export runs/mixed --minari rlsched/mixed-v0
    """
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.minari_store import export_minari

    targets = output.Targets(json).check()
    dataset = read_manifest(folder)
    with output.progress("exporting", dataset.rows) as step:
        place = export_minari(folder, dataset, minari, step)
    values = {"minari": minari, "folder": str(place)}
    targets.write({**values, "rows": dataset.rows, "episodes": dataset.episodes})
    console = targets.console
    console.print(f"exported     {dataset.rows:,} decisions in {dataset.episodes:,} episodes to {place}")
    console.print(f"load it      minari.load_dataset({minari!r})")


def import_dataset(
    source: SourceArgument,
    out: NewFolderOption,
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    behavior: BehaviorOption = None,
    column: ColumnOption = None,
    settings: options.SetOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make a dataset from decisions in rlsched's environments that another program recorded.

    Every row is checked. SOURCE needs obs, actions, rewards, the ends of episodes, and legal actions
    (action_mask; with flat=True it is part of the observations). It also needs a --scenario, unless it is a
    Minari dataset that names one, or has a dataset.json next to its files.

    Example: rlsched dataset import log.parquet --scenario green-10 --column actions=action --out runs/mine
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.importing import import_dataset as write

    targets = output.Targets(json).check()
    DatasetFolder(out).check_free()
    output.check_folder("--out", out)
    if behavior is not None and not behavior.strip():
        raise BadInputError("--behavior", "is empty", "give the name of the recorded policy, or remove it")
    episodes = open_episodes(source, column or [])
    chosen, recorded = _scenarios(episodes, source, scenario, trace, settings or [])
    with output.progress("importing", episodes.rows) as step:
        imported = write(
            episodes,
            chosen,
            out,
            f"imported from {source}",
            recorded=recorded,
            vectors=episodes.vectors,
            behavior=behavior,
            progress=step,
        )
    omitted = {"left_out": imported.left_out, "removed_blocks": list(imported.removed_blocks)}
    targets.write({"folder": str(out), **omitted, **imported.manifest.model_dump(mode="json")})
    _print_imported(targets.console, imported, out)


def _print_imported(console: Console, imported: Imported, out: Path) -> None:
    dataset = imported.manifest
    console.print(behaviors_table(dataset))
    if imported.removed_blocks:
        console.print(f"removed      {', '.join(imported.removed_blocks)} (privileged blocks)")
    if imported.left_out:
        console.print(f"left out     {imported.left_out:,} decisions without a next observation")
    console.print("not known    metrics of episodes: only rewards are imported")
    if not dataset.chances:
        console.print("not known    probabilities of actions (action_logp): judge has no estimate by wis")
    console.print(f"dataset      {out} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(out)}")


def _scenarios(
    episodes: ParquetEpisodes | MinariEpisodes,
    source: str,
    scenario: str | None,
    trace: Path | None,
    settings: Sequence[str],
) -> tuple[Scenario, Scenario | None]:
    """The scenario of the options, or else of the source; and that of the source, if it names one."""
    if scenario is not None or trace is not None:
        chosen = options.given_scenario(scenario, trace, settings)
        try:
            return chosen, episodes.scenario
        except BadInputError:  # it needs a file that is missing
            return chosen, None
    recorded = episodes.scenario
    if recorded is None:
        raise BadInputError(source, "does not name its scenario", "give it: --scenario NAME|FILE")
    if settings:
        raise BadInputError("--set", "needs --scenario", "give a --scenario, or remove --set")
    return recorded, recorded


def open_episodes(source: str, columns: Sequence[str]) -> ParquetEpisodes | MinariEpisodes:
    """The episodes of a source; `columns`: values of `--column`."""
    from rlsched.offline.foreign import KNOWN
    from rlsched.offline.minari_store import MinariEpisodes
    from rlsched.offline.parquet_log import ParquetEpisodes

    named: dict[str, str] = {}
    for text in columns:
        ours, _, theirs = text.partition("=")
        if ours not in KNOWN or not theirs:
            remedy = f"write OURS=THEIRS; ours are {', '.join(KNOWN)}"
            raise BadInputError("--column", f"value {text!r} renames nothing", remedy)
        if ours in named:
            raise BadInputError("--column", f"{ours!r} is given twice", "give it once")
        named[ours] = theirs
    if Path(source).exists():
        return ParquetEpisodes(Path(source), named)
    if named:
        raise BadInputError("--column", f"there is no file or folder {source!r}", "name a Parquet file")
    return MinariEpisodes(source)
