"""`rlsched export`: a trained policy as a small folder for the service."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rlsched.cli import options, output
from rlsched.files import quoted


def export(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="A run folder (its best policy) or a checkpoint."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Target folder; its policy is replaced.")],
    window: options.WindowOption = None,
    json: options.JsonOption = None,
) -> None:
    """Write a trained policy as a small folder: weights, spaces, scenario, versions, card, example request.

    Reading it executes no code, and needs neither RLlib nor the trace. The command reads it again and decides
    the example request.

    Example: rlsched export runs/first runs/policy
    """
    targets = output.Targets(json).check()
    output.check_folder("DIR", folder)

    from rlsched.cli.checkpoints import check_exists

    check_exists(checkpoint, "can be served as a fallback: rlsched serve DIR --fallback NAME[:RULE]")
    output.announce_compiling()
    with output.busy("exporting"):
        from rlsched.serve.artefact import export_policy
        from rlsched.serve.decide.policy_store import load_for_service
        from rlsched.serve.settings import ServeConfig

        policy = export_policy(Path(checkpoint), folder, window)
        began = time.perf_counter()
        served = load_for_service("default", folder, ServeConfig(policies={"default": folder}))
        seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in folder.iterdir())
    console = targets.console
    console.print(f"exported     {checkpoint} to {folder}: {size / 1e3:,.0f} kB, version {served.version}")
    console.print(f"verified     by a decision after {seconds:.2f} s")
    console.print(f"card         {folder / 'README.md'}")
    console.print(f"serve it     rlsched serve {quoted(folder)}")
    targets.write(
        {
            "folder": str(folder),
            "version": served.version,
            "bytes": size,
            "read_s": seconds,
            "units": served.inference.units.tolist(),
            "about": policy.about,
        }
    )
