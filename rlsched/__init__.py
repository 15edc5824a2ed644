"""rlsched: train batch job schedulers by reinforcement learning and compare them.

Importing the package registers its scenarios with Gymnasium, so that `gymnasium.make("rlsched/lublin-256")`
works; nothing heavier is imported.
"""

from rlsched.envs.registration import register_all

__version__ = "0.1.0"

register_all()
