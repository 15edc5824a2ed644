"""Folder of a policy: find it, read its settings, and replace it as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import seed_folders
from rlsched.files import hidden
from rlsched.json_files import parse_json, without_checksum

WEIGHTS, SETTINGS = "weights.safetensors", "policy.json"
SCHEMA = 1
DAMAGED = (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError)


def replace_folder(new: Path, old: Path) -> None:
    """Replace a folder by a finished one; the old one is removed only once the new one is in place."""
    aside = hidden(old, "old")
    shutil.rmtree(aside, ignore_errors=True)
    if old.exists():
        os.replace(old, aside)
    try:
        os.replace(new, old)
    except OSError:
        if aside.exists():
            os.replace(aside, old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def find_policy(path: Path) -> Path:
    """Find the artefact in a policy folder, a checkpoint or a run folder (its best policy).

    A run killed while it replaced its best policy may have left only the old one, under its temporary name.

    Raises:
        BadInputError: there is none.
    """
    for candidate in (path, path / "policy", path / "best", path / ".best.old"):
        if (candidate / SETTINGS).is_file():
            return candidate
    remedy = "name a run folder, a checkpoint or an exported policy"
    if seeds := seed_folders(path):
        remedy = f"name one of its seeds, as {next(iter(seeds.values()))}"
    raise BadInputError(str(path), "holds no trained policy", remedy)


def read_about(path: Path) -> dict[str, Any]:
    """Read the figures of a policy's training (`NetworkPolicy.about`), without its network.

    Raises:
        BadInputError: there is none, or it is damaged.
    """
    folder = find_policy(path)
    try:
        about: dict[str, Any] = read_settings(folder)["about"]
    except DAMAGED as error:
        raise BadInputError(
            str(folder), f"is damaged or of another version ({error})", "train or export it again"
        ) from None
    return about


def read_settings(folder: Path) -> dict[str, Any]:
    """Read an artefact's settings file.

    Raises:
        OSError: there is none.
        TypeError: it, or a section of it, is no mapping.
        ValueError: it is no JSON, was changed since it was written, or is of another version.
    """
    settings = parse_json((folder / SETTINGS).read_text("utf-8"))
    if not isinstance(settings, dict):
        raise TypeError(f"{SETTINGS} is no mapping")
    for key in ("network", "about"):
        if not isinstance(settings.get(key, {}), dict):
            raise TypeError(f"{key} is no mapping")
    if settings.get("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"schema {settings['schema']!r:.20}, this version reads {SCHEMA}")
    return without_checksum(settings)
