"""The private names of Ray and RLlib that are used; `serve.process.proxy` changes those of Serve's HAProxy.

Ray may change a private name in any version. `tests/learn/test_ray_compat.py` tests each, so that a change
shows there, by name, and not in the middle of a run.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from queue import Queue
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

import ray
from ray._common.utils import get_default_ray_temp_dir
from ray._private import ray_constants, services
from ray._private.node import Node
from ray._private.state import state
from ray._raylet import raise_sys_exit_with_custom_error_message  # type: ignore[attr-defined]

from rlsched.learn.interrupts import keep_sigterm

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

FATAL_SIGNALS = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"
"""Ray's `RayLog::InstallFailureSignalHandler(const char *, bool)`."""

AGENT_COMMAND = "_build_python_executable_command_memory_profileable"
"""Function of `ray._private.services` that builds the command that runs an agent of a node."""

RAYLET = ray_constants.PROCESS_TYPE_RAYLET
"""Key of the raylet among the processes of a node."""

OVERRIDDEN: Mapping[str, tuple[str, ...]] = {
    "ray.rllib.env.single_agent_env_runner.SingleAgentEnvRunner": (
        "_sample",
        "_log_episode_metrics",
        "_log_env_steps",
        "_increase_sampled_metrics",
    ),
    "ray.rllib.core.learner.torch.torch_learner.TorchLearner": (
        "_create_iterator_if_necessary",
        "_make_batch_if_necessary",
        "_set_optimizer_state",
        "_get_tensor_variable",
    ),
}
"""Class of RLlib -> its private methods that our subclasses override or call."""


def default_temp_dir() -> str:
    """Default folder of Ray's files."""
    return str(get_default_ray_temp_dir())


def largest_cluster() -> Mapping[str, float]:
    """Resource -> amount that an autoscaling cluster may grow to; empty for one that does not grow."""
    return state.get_max_resources_from_cluster_config() or {}


def local_node() -> Any:
    """The `Node` of Ray that this process has started; None: it has started none."""
    return ray._private.worker._global_node


def serve_controller() -> Any:
    """The actor that controls Serve.

    Raises:
        ValueError: it does not run.
    """
    from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

    return ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)


def validate_cluster(config: dict[str, Any]) -> None:
    """Raise what `ray up` raises for the content of a cluster file, before it starts anything."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def kubernetes_quantity(value: float | str) -> Decimal:
    """A quantity of Kubernetes, such as 500m or 2Gi, as a number."""
    from ray.autoscaler._private.kuberay.utils import parse_quantity

    return parse_quantity(value)


def exit_with_message(message: str) -> NoReturn:
    """End a worker process; the driver gets the message with the actor's error."""
    raise_sys_exit_with_custom_error_message(message, exit_code=1)
    raise AssertionError


@contextmanager
def lean_node() -> Iterator[None]:
    """Start nodes without the processes for a dashboard, an autoscaler and logs at the driver.

    None of these is used here. They are three Python processes, for which Ray waits. Without them it starts
    in 2.1 to 3.4 s instead of 4.2 to 6.0, and ends in 0.2 instead of 1.3 (two cores). `ray start` has
    settings for two of them, `ray.init` none. The node's agent finds that a dashboard's packages are not
    installed.

    Ray's handler of SIGTERM in Python is left out, too: it ends a driver halfway. Its processes listen at
    127.0.0.1 only, as by default on macOS and Windows: a client of one of their ports can run code.
    """

    def nothing(*args: Any, **settings: Any) -> None:
        """Start nothing."""

    def command(*args: Any, **settings: Any) -> list[str]:
        """Command that runs an agent by `lean_agent.py`."""
        return [*ordinary(*args, **settings), str(Path(__file__).with_name("lean_agent.py"))]

    ordinary = getattr(services, AGENT_COMMAND)
    with (
        patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False),
        patch.object(Node, "start_api_server", nothing),
        patch.object(Node, "start_monitor", nothing),
        patch.object(Node, "start_log_monitor", nothing),
        patch.object(services, AGENT_COMMAND, command),
        patch("ray._private.utils.set_sigterm_handler", nothing),
        patch("ray._private.utils.get_dashboard_dependency_error", return_value=ImportError("left out")),
    ):
        yield


def precede_sigterm() -> None:
    """Let Ray install its handler of fatal signals now, then replace it by ours for SIGTERM.

    On SIGTERM, Ray's handler prints a C++ stack and aborts. Ray installs it once per process, in the middle
    of a start that takes seconds, where Python could not replace it.
    """
    install = getattr(ctypes.CDLL(ray._raylet.__file__), FATAL_SIGNALS, None)
    if install is not None and threading.current_thread() is threading.main_thread():
        install(None, False)
        keep_sigterm()


def end_processes(error: Exception) -> None:
    """End the processes that a node started before it failed; Ray would only at the end of this process."""
    for frame, _ in walk_tb(error.__traceback__):
        node = frame.f_locals.get("self")
        if isinstance(node, Node):
            node.kill_all_processes(check_alive=False, allow_graceful=False)
            return


def runner_manager(group: Any) -> Any:
    """The `FaultTolerantActorManager` of an `EnvRunnerGroup`: handles of its runners, and their health."""
    return group._worker_manager


def sample(algorithm: Algorithm) -> tuple[list[SingleAgentEpisode], Any]:
    """One fragment of every runner of an algorithm, and their metrics."""
    from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

    episodes, metrics = synchronous_parallel_sample(
        worker_set=algorithm.env_runner_group,
        sample_timeout_s=algorithm.config.sample_timeout_s,
        _uses_new_env_runners=True,
        _return_metrics=True,
    )
    return list(episodes), metrics


def set_offline(config: Any) -> None:
    """Mark an `AlgorithmConfig` of an online algorithm as offline, so that no runner samples."""
    config._is_online = False


def set_gradients(learner: Any, gradients: Mapping[str, Any]) -> None:
    """Set the gradients of the parameters of a `TorchLearner`."""
    for name, gradient in gradients.items():
        learner._params[name].grad = gradient


def optimizers(learner: Any) -> list[Any]:
    """The optimizers of a `TorchLearner`."""
    return list(learner._named_optimizers.values())


class LearnerThread:
    """The thread in which an `APPOTorchLearner` learns."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.thread = learner, learner._learner_thread

    def set_results(self, results: Queue[dict[str, Any]]) -> None:
        """Put the results of updates into another queue; it waits for a batch, and has no results yet."""
        self.learner._learner_thread_out_queue = self.thread._out_queue = results

    def wrap(self, update: Callable[..., Any], failed: Callable[[BaseException], None]) -> None:
        """Replace the thread's update, and report exceptions of its steps."""
        self.thread._update_method = update
        step = self.thread.step  # the first one waits for a batch already; its update is not wrapped

        def wrapped() -> bool:
            try:
                return bool(step())
            except BaseException as error:
                failed(error)
                return False

        self.thread.step = wrapped

    def stop(self) -> None:
        """Stop before the next batch, and wake the thread that waits for results."""
        self.thread._stop_event.set()
        self.learner._agg_event.set()
