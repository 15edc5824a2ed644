"""Learning algorithms, one module each; importing the package registers all of them.

A module holds the settings of its algorithm, their checks and defaults, and RLlib's configuration. Code that
imports ray or torch is in `learners`, and is imported when training starts.
"""

from importlib import import_module
from pkgutil import iter_modules

from rlsched.learn.algorithms.base import ALGORITHMS

for module in iter_modules(__path__, f"{__name__}."):
    if not module.ispkg:
        import_module(module.name)

for name in sorted(ALGORITHMS):
    ALGORITHMS[name] = ALGORITHMS.pop(name)
