"""What makes the start of Serve's processes shorter: there are five, and all import much that is large.

Workers import this module first (`preload_python_modules`), and so does whoever starts them.

- Pandas is left out, which Serve imports to write frames as JSON, though nobody here returns any: it takes a
  process a quarter to half a second of a core. Whatever else imports it gets it.
- Python looks for rubbish less often: looking through what is being imported, which is none, takes a quarter
  of the time to import it.
- Replicas `postpone` what torch imports to compile and export networks, which they do not: two fifths of the
  2 seconds of a core that torch takes.

And what Serve knows of HAProxy and of addresses is changed where it is imported (`process.proxy`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from rlsched.serve.process.proxy import harden, keep_running, listen_at_node

ASKS = "ray.serve._private.utils"
"""Imports it where it is there, when it is imported itself."""

COLLECTED_AFTER = (50_000, 20, 100)
"""Objects until Python looks for rubbish: a batch makes a million that are none, too, and at the usual 700
half of the time to read it would go into looking at them."""

LATER = {"torch._meta_registrations", "torch.export"}
"""What only compiling and exporting needs."""


class Postponed(ModuleType):
    """A module that runs when it is first asked for something of its own.

    `importlib.util.LazyLoader` would run it at once: Python 3.11 asks a module that is imported for its spec.
    """

    def __getattr__(self, name: str) -> Any:
        assert self.__spec__ is not None
        assert isinstance(self.__spec__.loader, Later)
        self.__class__ = ModuleType  # type: ignore[assignment]  # as the class of modules may be
        self.__spec__.loader.loader.exec_module(self)
        return getattr(self, name)


@dataclass(frozen=True)
class Later(Loader):
    """Makes postponed modules.

    Attributes:
        loader: that would run them at once.
    """

    loader: Loader

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""
        module.__class__ = Postponed


class Postponing(MetaPathFinder):
    """Finds what may wait, to be run later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        found = PathFinder.find_spec(name, path) if name in LATER else None
        if found is not None and found.loader is not None:
            found.loader = Later(found.loader)
        return found


def postpone() -> None:
    """Have torch imported without what compiling and exporting networks needs.

    For processes that only decide: modules that are asked for run after all, but in this order torch's
    compiler cannot be imported.
    """
    sys.meta_path.insert(0, Postponing())


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


CHANGES: dict[str, Callable[[Any], None]] = {
    "ray.serve._private.haproxy_templates": harden,
    "ray.serve._private.haproxy": keep_running,
    "ray.serve._private.replica": listen_at_node,
}
"""Module of Serve's -> what changes it once it is imported."""


@dataclass(frozen=True)
class Changed(Loader):
    """Loads a module and changes it.

    Attributes:
        loader: of the module.
        change: it.
    """

    loader: Loader
    change: Callable[[Any], None]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `Loader.create_module`."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""
        self.loader.exec_module(module)
        self.change(module)


class Changing(MetaPathFinder):
    """Finds the modules that are changed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        found = PathFinder.find_spec(name, path) if name in CHANGES else None
        if found is not None and found.loader is not None:
            found.loader = Changed(found.loader, CHANGES[name])
        return found


gc.set_threshold(*COLLECTED_AFTER)
sys.meta_path[:0] = [LeftOut(), Changing()]
