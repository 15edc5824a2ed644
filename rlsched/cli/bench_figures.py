"""Figures of `rlsched bench`, and the machine that they were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured figure, as the JSON of `rlsched bench` holds it.

    Attributes:
        name: what was measured, as in `decisions_per_s`.
        case: the workload that it was measured on.
        value: the figure, in its unit.
        unit: as in "1/s".
        against: what it is compared with; None: with nothing.
        ratio: speed relative to `against`; None where there is nothing to compare with.
    """

    name: str
    case: str
    value: float
    unit: str = "1/s"
    against: str | None = None
    ratio: float | None = None


def machine() -> dict[str, Any]:
    """The machine and the versions that figures depend on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("rlsched", "numba", "numpy")},
    }


def machine_line() -> str:
    """The machine in words."""
    values = machine()
    return f"{values['cpu']}, {values['cores']} cores"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def to_json(figures: Sequence[Figure]) -> dict[str, Any]:
    """Figures and machine as JSON values."""
    return {"schema": 1, "machine": machine(), "figures": [asdict(figure) for figure in figures]}
