"""Private names of Ray and RLlib are there, and do what training expects of them."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from queue import Queue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import ray
import torch
from ray._private import ray_constants, services
from ray._private.node import Node
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import impala_learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.execution import rollout_ops

from rlsched.learn.rllib import ray_compat


@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path, methods in ray_compat.OVERRIDDEN.items() for method in methods],
)
def test_rllib_still_has_the_private_methods_that_are_overridden(path: str, method: str) -> None:
    module, _, name = path.rpartition(".")
    assert callable(getattr(getattr(import_module(module), name), method))


def test_the_folder_of_ray_is_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    assert ray_compat.default_temp_dir() == "/tmp/ray"


def test_a_cluster_without_an_autoscaler_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(ray_compat.state.get_max_resources_from_cluster_config)
    for answer, grows in ((None, {}), ({"CPU": 8.0}, {"CPU": 8.0})):
        method = "get_max_resources_from_cluster_config"
        monkeypatch.setattr(ray_compat.state, method, lambda answer=answer: answer)
        assert ray_compat.largest_cluster() == grows


def test_a_process_without_ray_has_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray._private.worker, "_global_node", None)
    assert ray_compat.local_node() is None
    assert callable(Node.dead_processes)
    assert callable(Node.get_logs_dir_path)


def test_the_controller_of_serve_is_an_actor_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: (name, namespace))
    assert ray_compat.serve_controller() == ("SERVE_CONTROLLER_ACTOR", "serve")


def test_ray_validates_cluster_files() -> None:
    config = {"cluster_name": "a", "provider": {"type": "local", "head_ip": "head", "worker_ips": []}}
    ray_compat.validate_cluster(deepcopy(config))
    with pytest.raises(Exception, match="no_such_key"):
        ray_compat.validate_cluster(config | {"no_such_key": 1})


def test_quantities_of_kubernetes_are_numbers() -> None:
    assert ray_compat.kubernetes_quantity("500m") * 4 == ray_compat.kubernetes_quantity("2")
    assert ray_compat.kubernetes_quantity("1Ki") == 1024


def test_a_worker_ends_with_its_message() -> None:
    with pytest.raises(SystemExit) as ended:
        ray_compat.exit_with_message("the reason")
    assert ended.value.ray_terminate_msg == "the reason"


def test_a_lean_node_replaces_only_names_that_ray_has() -> None:
    """`patch` refuses a name that is not there."""
    before = Node.start_monitor
    with ray_compat.lean_node():
        assert ray_constants.ENABLE_RAY_CLUSTER is False
        assert Node.start_monitor is not before
        command = getattr(services, ray_compat.AGENT_COMMAND)("agent", "/tmp")
        assert command[-1].endswith("lean_agent.py")
    assert Node.start_monitor is before


def test_our_handler_of_sigterm_stays_after_rays() -> None:
    assert hasattr(ctypes.CDLL(ray._raylet.__file__), ray_compat.FATAL_SIGNALS)
    before = signal.getsignal(signal.SIGTERM)
    ray_compat.precede_sigterm()
    assert signal.getsignal(signal.SIGTERM) == before


def test_processes_of_a_node_that_failed_are_ended() -> None:
    ended = []

    class Broken(Node):
        def __init__(self) -> None:
            raise RuntimeError("timed out during startup")

        def kill_all_processes(self, **settings: Any) -> None:
            ended.append(settings)

        def __del__(self) -> None:
            """Nothing was started."""

    try:
        Broken()
    except RuntimeError as error:
        ray_compat.end_processes(error)
    assert ended == [{"check_alive": False, "allow_graceful": False}]
    assert {"check_alive", "allow_graceful"} <= set(Node.kill_all_processes.__kwdefaults__ or ()) | set(
        Node.kill_all_processes.__code__.co_varnames
    )


def test_the_manager_of_runners_knows_their_handles_and_health() -> None:
    group = EnvRunnerGroup.__new__(EnvRunnerGroup)
    group._worker_manager = "the manager"
    assert ray_compat.runner_manager(group) == "the manager"
    assert "_worker_manager" in EnvRunnerGroup._setup.__code__.co_names


def test_sampling_asks_all_runners_for_episodes_and_metrics() -> None:
    accepted = rollout_ops.synchronous_parallel_sample.__code__.co_varnames
    algorithm: Any = SimpleNamespace(env_runner_group="group", config=SimpleNamespace(sample_timeout_s=3.0))
    with patch.object(
        rollout_ops, "synchronous_parallel_sample", return_value=(["episode"], "all")
    ) as sample:
        assert ray_compat.sample(algorithm) == (["episode"], "all")
    assert set(sample.call_args.kwargs) <= set(accepted)
    assert sample.call_args.kwargs["sample_timeout_s"] == 3.0


def test_a_config_can_be_made_an_offline_one() -> None:
    config = DQNConfig()
    assert config.is_online
    ray_compat.set_offline(config)
    assert not config.is_online


def test_a_learner_has_its_parameters_and_optimizers_by_name() -> None:
    names = {*TorchLearner.apply_gradients.__code__.co_names, *TorchLearner.__init__.__code__.co_names}
    assert "_params" in names
    weights = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    learner = SimpleNamespace(_params={"w": weights}, _named_optimizers={"adam": optimizer})
    ray_compat.set_gradients(learner, {"w": torch.ones(2)})
    assert torch.equal(weights.grad, torch.ones(2))
    assert ray_compat.optimizers(learner) == [optimizer]


def thread_of(step: Callable[[], bool]) -> tuple[Any, Any]:
    """A learner and its thread, with the attributes that RLlib gives them."""
    thread = SimpleNamespace(
        step=step, _stop_event=threading.Event(), _out_queue=Queue(), _update_method=None
    )
    learner = SimpleNamespace(
        _learner_thread=thread, _learner_thread_out_queue=thread._out_queue, _agg_event=threading.Event()
    )
    return learner, thread


def test_rllib_gives_the_learner_thread_these_attributes() -> None:
    names: set[str] = set()
    for kind in (*APPOTorchLearner.__mro__, impala_learner._LearnerThread):
        for method in vars(kind).values():
            names |= set(getattr(getattr(method, "__code__", None), "co_names", ()))
    expected = ("_learner_thread", "_learner_thread_out_queue", "_agg_event")
    assert {*expected, "_out_queue", "_update_method", "_stop_event"} <= names


def test_a_learner_thread_hands_over_what_ends_it() -> None:
    def fail() -> bool:
        raise FloatingPointError("nan")

    learner, thread = thread_of(fail)
    handle, failures = ray_compat.LearnerThread(learner), []
    results: Queue[dict[str, Any]] = Queue()
    handle.set_results(results)
    handle.wrap(print, failures.append)
    assert thread.step() is False
    assert [type(error) for error in failures] == [FloatingPointError]
    assert (thread._out_queue, learner._learner_thread_out_queue) == (results, results)
    assert thread._update_method is print
    handle.stop()
    assert thread._stop_event.is_set()
    assert learner._agg_event.is_set()
