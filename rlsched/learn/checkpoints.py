"""Checkpoints of a training run: complete, with checksums, and signed by the user of the process.

    checkpoints/000010/rllib/       the engine's state; some files of RLlib's are pickles
    checkpoints/000010/policy/      the policy
    checkpoints/000010/standing.json
    checkpoints/000010/manifest.json

A checkpoint is written under a temporary name and renamed, so that all in the folder are complete. Its
manifest has the SHA-256 of every other file, and shows later damage. Reading a pickle runs code in it, so
those of RLlib are read only where this user's key has signed the manifest (`rlsched.signatures`).
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import Field, ValidationError, model_validator

from rlsched.errors import BadInputError
from rlsched.files import checksum
from rlsched.learn.pid import LimitCheck
from rlsched.settings import Frozen
from rlsched.signatures import is_signed, sign

MAX_CHECKPOINTS = 2
STANDING, MANIFEST = "standing.json", "manifest.json"
PICKLED = "rllib"
"""Folder of a checkpoint with pickles; only RLlib's engine writes any."""

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions from reading damaged files."""


class Standing(Frozen):
    """Progress of a run, stored in every checkpoint; checks are those of costs with a limit."""

    iteration: int = 0  # finished ones
    steps: int = 0  # decisions so far
    seconds: float = 0.0  # of training so far
    best_excess: float | None = None  # `Score.excess` of the best policy
    best_value: float | None = None  # its `Score.value`
    best_metric: float | None = None  # its metric in validation
    best_hoarding: float | None = None  # part of `best_excess`; None in checkpoints of older versions
    best_checks: dict[str, LimitCheck] = Field({})  # empty in those of older versions
    checks: dict[str, LimitCheck] = Field({})  # of the last validation's policy
    since_best: int = 0  # validations
    better: bool = False  # the last policy is the best, and beats the best heuristic by interval

    @model_validator(mode="before")
    @classmethod
    def _of_older_versions(cls, values: Any) -> Any:
        """Drop means of costs, which versions up to 929cdec wrote; a resumed run computes its checks anew."""
        if isinstance(values, dict):
            values = {name: value for name, value in values.items() if name != "best_paid"}
        return values


class Checkpoints:
    """The checkpoints of one run, in the folder `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, standing: Standing, write: Callable[[Path], None]) -> Path:
        """Write a checkpoint and delete old ones.

        Args:
            standing: progress of the run.
            write: writes all other files into a folder.

        Raises:
            OSError: the disk is full or gone; earlier checkpoints are untouched.
        """
        final = self.path / f"{standing.iteration:06d}"
        new = self.path / f".{final.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        write(new)
        (new / STANDING).write_text(standing.model_dump_json(indent=2) + "\n", "utf-8")
        _write_manifest(new)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(new, final)
        for old in self._numbered()[:-MAX_CHECKPOINTS]:
            shutil.rmtree(old, ignore_errors=True)
        return final

    def latest(self) -> tuple[Path, Standing] | None:
        """The newest checkpoint with readable progress, or None; its other files are not checked."""
        for path in reversed(self._numbered()):
            # While a run trains, a checkpoint may be replaced between the listing and the reading.
            with suppress(OSError, ValidationError):
                return path, Standing.model_validate_json((path / STANDING).read_bytes())
        return None

    def intact(self, *, trust: bool = True) -> tuple[tuple[Path, Standing] | None, list[str]]:
        """The newest undamaged checkpoint.

        Args:
            trust: accept pickles that this user has not signed.

        Returns:
            The checkpoint, or None where there are no checkpoints at all, and the problems of newer ones.

        Raises:
            BadInputError: all are damaged, or another user, machine or version wrote the newest other one.
        """
        problems = []
        for path in reversed(self._numbered()):
            if problem := damage(path):
                problems.append(f"checkpoint {path} is damaged: {problem}")
                continue
            if not trust and (path / PICKLED).exists() and not _is_signed_here(path):
                raise BadInputError(
                    str(path),
                    "has no manifest that this user signed here, and reading it may run code",
                    "add --trust-checkpoint if you trust those who could write to it",
                )
            return (path, Standing.model_validate_json((path / STANDING).read_bytes())), problems
        if problems:
            raise BadInputError(
                str(self.path), f"holds no whole checkpoint: {'; '.join(problems)}", "begin another run"
            )
        return None, []

    def set_aside(self, iteration: int) -> None:
        """Rename the damaged checkpoints after the iteration from which a run resumes."""
        for path in self._numbered():
            if int(path.name) > iteration:
                put_aside = path.with_name(f"damaged-{path.name}")
                shutil.rmtree(put_aside, ignore_errors=True)
                os.replace(path, put_aside)

    def _numbered(self) -> list[Path]:
        """Folders of checkpoints, old ones first."""
        if not self.path.is_dir():
            return []
        return sorted(path for path in self.path.iterdir() if path.name.isdigit() and path.is_dir())


def damage(path: Path) -> str | None:
    """Describe the first problem of a checkpoint's files; None: there is none.

    A checkpoint without a manifest, of an older version, only needs readable progress.
    """
    try:
        Standing.model_validate_json((path / STANDING).read_bytes())
        if not (path / MANIFEST).exists():
            return None
        expected, present = _manifest(path)["files"], _files(path)
        for name in sorted(expected.keys() | present.keys()):
            if name not in present:
                return f"{name} is missing"
            if name not in expected:
                return f"{name} is not in its manifest"
            if checksum(present[name]) != expected[name]:
                return f"{name} has changed"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except UNREADABLE as error:
        return f"cannot be read ({(str(error) or type(error).__name__).splitlines()[0]})"
    return None


@contextmanager
def private_copy(path: Path) -> Iterator[Path]:
    """Copy a checkpoint to where no other user can change it between its check and its reading.

    Raises:
        BadInputError: it was changed since it was checked.
    """
    with TemporaryDirectory(prefix="rlsched-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copytree(path, copy)
            problem = damage(copy)
        except (OSError, shutil.Error) as error:
            problem = str(error)
        if problem is None and (copy / PICKLED).exists() and not _is_signed_here(copy):
            problem = "its signature is another one"
        if problem is not None:
            raise BadInputError(
                str(path), f"has changed since it was checked ({problem})", "begin another run"
            )
        yield copy


def _files(path: Path) -> dict[str, Path]:
    """Name in the folder -> file or link, all but the manifest."""
    files = (file for file in path.rglob("*") if not file.is_dir() or file.is_symlink())
    names = {file.relative_to(path).as_posix(): file for file in files}
    return {name: file for name, file in names.items() if name != MANIFEST}


def _write_manifest(path: Path) -> None:
    files = {name: checksum(file) for name, file in sorted(_files(path).items())}
    signature = sign(_canonical(files))
    if signature is None and (path / PICKLED).exists():
        _warn_unsigned()
    content = {"schema": 1, "files": files, "signature": signature}
    (path / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", "utf-8")


@cache
def _warn_unsigned() -> None:
    """Warn once that resuming will need an option."""
    logging.getLogger(__name__).warning(
        "checkpoints are not signed, since no private key can be kept in ~/.config/rlsched: "
        "to resume from them add --trust-checkpoint"
    )


def _manifest(path: Path) -> dict[str, Any]:
    content = json.loads((path / MANIFEST).read_bytes())
    files = content["files"]
    if not all(isinstance(name, str) and isinstance(digest, str) for name, digest in files.items()):
        raise ValueError("checksums are no text")
    return dict(content)


def _is_signed_here(path: Path) -> bool:
    """Whether the folder is this user's, and its manifest signed with this user's key."""
    if not (path / MANIFEST).exists() or path.stat().st_uid != os.getuid():
        return False
    content = _manifest(path)
    return isinstance(content.get("signature"), str) and is_signed(
        _canonical(content["files"]), content["signature"]
    )


def _canonical(files: dict[str, str]) -> bytes:
    return json.dumps(files, sort_keys=True).encode()
