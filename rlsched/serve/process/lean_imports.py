"""Faster imports for Serve's five processes, all of which import large modules.

Workers import this module first (`preload_python_modules`), and so does the process that starts them.

- Serve does not get pandas, which it imports to write frames as JSON and which takes a process a quarter to
  half a second of a core. Other modules that import pandas get it.
- Python collects garbage less often: during imports there is none, and looking for it takes a quarter of the
  time.
- Replicas `postpone` what torch imports to compile and export networks, which is two fifths of the 2 seconds
  of a core that torch takes.

Serve's modules of HAProxy and of addresses are changed when they are imported (`proxy`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from rlsched.serve.process.proxy import harden, keep_running, listen_at_node

PANDAS_USER = "ray.serve._private.utils"  # module that imports pandas, if pandas is installed

COLLECTED_AFTER = (50_000, 20, 100)
"""Thresholds of garbage collection. A batch makes a million objects that are no garbage: with Python's usual
threshold of 700, looking at them would take half of the time to read it."""

LATER = {"torch._meta_registrations", "torch.export"}  # modules that only compiling and exporting need


class Postponed(ModuleType):
    """A module that runs at the first access to one of its attributes.

    `importlib.util.LazyLoader` would run it at once: Python 3.11 reads the spec of an imported module.
    """

    def __getattr__(self, name: str) -> Any:
        assert self.__spec__ is not None
        assert isinstance(self.__spec__.loader, Later)
        self.__class__ = ModuleType  # type: ignore[assignment]  # as the class of modules may be
        self.__spec__.loader.loader.exec_module(self)
        return getattr(self, name)


@dataclass(frozen=True)
class Later(Loader):
    """Loads postponed modules."""

    loader: Loader

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""
        module.__class__ = Postponed


@dataclass(frozen=True, eq=False)
class Wrapping(MetaPathFinder):
    """Finds modules whose loaders are wrapped."""

    loaders: Mapping[str, Callable[[Loader], Loader]]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        wrapped = self.loaders.get(name)
        spec = None if wrapped is None else PathFinder.find_spec(name, path)
        if wrapped is not None and spec is not None and spec.loader is not None:
            spec.loader = wrapped(spec.loader)
        return spec


def postpone() -> None:
    """Import torch without the modules for compiling and exporting networks.

    For processes that only decide: a postponed module runs when it is used, but torch's compiler cannot be
    imported in this order.
    """
    sys.meta_path.insert(0, Wrapping(dict.fromkeys(LATER, Later)))


class LeftOut(MetaPathFinder):
    """Finds nothing, and denies pandas to Serve."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`.

        Raises:
            ModuleNotFoundError: Serve imports pandas.
        """
        user = sys.modules.get(PANDAS_USER) if name == "pandas" else None
        if user is not None and getattr(user.__spec__, "_initializing", False):
            raise ModuleNotFoundError("pandas is left out of Ray Serve", name=name)
        return None


CHANGES: dict[str, Callable[[Any], None]] = {
    "ray.serve._private.haproxy_templates": harden,
    "ray.serve._private.haproxy": keep_running,
    "ray.serve._private.replica": listen_at_node,
}
"""Module of Serve -> function that changes it after its import."""


@dataclass(frozen=True)
class Changed(Loader):
    """Loads a module and changes it."""

    loader: Loader
    change: Callable[[Any], None]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `Loader.create_module`."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""
        self.loader.exec_module(module)
        self.change(module)


gc.set_threshold(*COLLECTED_AFTER)
sys.meta_path[:0] = [
    LeftOut(),
    Wrapping({name: partial(Changed, change=change) for name, change in CHANGES.items()}),
]
