"""Versions of packages and Python, for records."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of these packages and of Python."""
    return {name: version(name) for name in packages} | {"python": platform.python_version()}
