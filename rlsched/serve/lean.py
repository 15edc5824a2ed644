"""What Ray Serve imports though nobody here uses it: pandas, to write frames as JSON, which nobody returns.

Its processes are five, and pandas takes each a quarter to half a second of a core when it starts. Workers
import this module first (`preload_python_modules`), and so does whoever starts them. Whatever else imports
pandas gets it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ASKS = "ray.serve._private.utils"
"""Imports it where it is there, when it is imported itself."""


class LeftOut(MetaPathFinder):
    """Finds nothing, and says that pandas is not there where Serve asks."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`.

        Raises:
            ModuleNotFoundError: that was asked for while Serve is imported.
        """
        asks = sys.modules.get(ASKS) if name == "pandas" else None
        if asks is not None and getattr(asks.__spec__, "_initializing", False):
            raise ModuleNotFoundError("pandas is left out of Ray Serve", name=name)
        return None


sys.meta_path.insert(0, LeftOut())
