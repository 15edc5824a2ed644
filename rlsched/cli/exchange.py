"""`rlsched dataset import` and `export`: datasets of others, and for others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.cli.dataset import FolderArgument, behaviors_table, megabytes
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rlsched.offline.minari_store import MinariEpisodes
    from rlsched.offline.parquet_log import ParquetEpisodes
    from rlsched.scenario import Scenario


def export(
    folder: FolderArgument,
    minari: Annotated[
        str, typer.Option(metavar="ID", help="Name of the Minari dataset, as in rlsched/green-10/mixed-v0.")
    ],
    json: options.JsonOption = None,
) -> None:
    """Write a dataset for Minari, from which d3rlpy, TorchRL and others read; observations as with flat=True.

    It lies where Minari looks for it: ~/.minari/datasets, or MINARI_DATASETS_PATH.

    Example: rlsched dataset export runs/mixed --minari rlsched/mixed-v0
    """
    from rlsched.offline.manifest import read_manifest
    from rlsched.offline.minari_store import export_minari

    output.Targets(json=json).check()
    dataset = read_manifest(folder)
    with output.progress("exporting", dataset.rows) as shown:
        place = export_minari(folder, dataset, minari, shown)
    if json is not None:
        told = {"schema": 1, "minari": minari, "folder": str(place)}
        output.write_json(json, {**told, "rows": dataset.rows, "episodes": dataset.episodes})
    console = output.people(json)
    console.print(f"exported     {dataset.rows:,} decisions in {dataset.episodes:,} episodes to {place}")
    console.print(f"load it      minari.load_dataset({minari!r})")


def import_dataset(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A Parquet file, a folder of them, or the name of a Minari dataset."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new dataset.")],
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    behavior: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who decided; left out: as the source says.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=THEIRS",
            help="What a column of a Parquet source is called, as in obs=observation. Repeatable.",
        ),
    ] = None,
    settings: options.SetOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make a dataset of what others recorded in our environments; every row is looked at.

    Needed are obs, actions, rewards, where episodes end, what was legal (action_mask; part of observations
    with flat=True), and the --scenario, unless a Minari dataset or a dataset.json beside the files says it.

    Example: rlsched dataset import log.parquet --scenario green-10 --column actions=action --out runs/mine
    """
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.importing import import_dataset as write

    output.Targets(json=json).check()
    DatasetFolder(out).check_free()
    output.check_folder("--out", out)
    if behavior is not None and not behavior.strip():
        raise BadInputError("--behavior", "is empty", "name who decided, or leave it out")
    episodes = opened(source, column or [])
    if scenario is None and trace is None:
        own = episodes.scenario
        if own is None:
            raise BadInputError(
                source, "does not say which scenario it was recorded with", "name it: --scenario NAME|FILE"
            )
        if settings:
            raise BadInputError(
                "--set", "changes a --scenario, and none is named", "name it, or leave --set out"
            )
        chosen = own
    else:
        own = recorded_with(episodes)
        chosen = options.given_scenario(scenario, trace, settings or [])
    origin = f"imported from {source}"
    with output.progress("importing", episodes.rows) as shown:
        made = write(
            episodes,
            chosen,
            out,
            origin,
            recorded=own,
            vectors=episodes.vectors,
            behavior=behavior,
            progress=shown,
        )
    dataset = made.manifest
    if json is not None:
        told = {
            "schema": 1,
            "folder": str(out),
            "left_out": made.left_out,
            "removed_blocks": list(made.removed_blocks),
        }
        output.write_json(json, {**told, **dataset.model_dump(mode="json")})
    console = output.people(json)
    console.print(behaviors_table(dataset))
    if made.removed_blocks:
        console.print(f"removed      {', '.join(made.removed_blocks)} (privileged blocks)")
    if made.left_out:
        console.print(f"left out     {made.left_out:,} decisions after which nobody says what was seen")
    console.print("not known    what episodes came to beside rewards: metrics are not imported")
    if not dataset.chances:
        console.print("not known    how likely choices were (action_logp): judge says nothing by wis")
    console.print(f"dataset      {out} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(out)}", markup=False)


def recorded_with(episodes: ParquetEpisodes | MinariEpisodes) -> Scenario | None:
    """The scenario that a source names; None: none, or by a file that is not here."""
    try:
        return episodes.scenario
    except BadInputError:
        return None


def opened(source: str, columns: Sequence[str]) -> ParquetEpisodes | MinariEpisodes:
    """Episodes of a source.

    Raises:
        BadInputError: there is none, or columns are renamed where there are none.
    """
    from rlsched.offline.foreign import KNOWN
    from rlsched.offline.minari_store import MinariEpisodes
    from rlsched.offline.parquet_log import ParquetEpisodes

    named: dict[str, str] = {}
    for text in columns:
        ours, _, theirs = text.partition("=")
        if ours not in KNOWN or not theirs:
            raise BadInputError(
                "--column",
                f"value {text!r} renames nothing",
                f"write OURS=THEIRS; ours are {', '.join(KNOWN)}",
            )
        if ours in named:
            raise BadInputError("--column", f"{ours!r} is given twice", "name each once")
        named[ours] = theirs
    if Path(source).exists():
        return ParquetEpisodes(Path(source), named)
    if named:
        raise BadInputError("--column", f"there is no file or folder {source!r}", "name a Parquet file")
    return MinariEpisodes(source)
