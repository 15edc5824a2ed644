"""A trained policy as a small artefact: plain weights and settings, loaded without RLlib.

A folder with `policy.json` (scenario, network, versions, results of training) and `weights.safetensors`
(one array per parameter of the policy network; no critic, and no executable code).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from torch import Tensor, nn

import rlsched
from rlsched.errors import BadInputError
from rlsched.files import checksum, hidden
from rlsched.jobs import IntArray
from rlsched.json_files import with_checksum
from rlsched.learn.acting import NetworkActor, one_thread
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import former_name
from rlsched.learn.networks.policies import LINEAR_SCALE, SCORE_SCALE, build_policy
from rlsched.learn.networks.recurrent import RecurrentPolicy
from rlsched.learn.networks.shapes import check_shapes, shapes_by
from rlsched.learn.policy_folder import (
    DAMAGED,
    SCHEMA,
    SETTINGS,
    WEIGHTS,
    find_policy,
    read_settings,
    replace_folder,
)
from rlsched.scenario import Scenario, parse
from rlsched.scenario.bounds import MOST_SLOTS
from rlsched.settings import validate
from rlsched.sim.layout import Layout


@dataclass(frozen=True, eq=False)
class NetworkPolicy:
    """Policy network with the scenario and settings of its training.

    It never sees privileged blocks. A network that was trained with them in the observation is rebuilt for
    the public observation, with the same weights.

    """

    scenario: Scenario  # of its training, with the public observation
    network: Network
    net: nn.Module  # (vector, mask) -> masked logits
    num_resources: int
    about: dict[str, Any]  # figures and versions of its training
    sample: bool = False  # draw from the distribution instead of taking the best action

    def __post_init__(self) -> None:
        public = self.scenario.public
        if public is self.scenario:
            return
        object.__setattr__(self, "scenario", public)
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, then replaced
            net = build_policy(self.layout, self.network)
        net.load_state_dict(self.net.state_dict(), assign=True)
        object.__setattr__(self, "net", net.train(self.net.training))

    @property
    def layout(self) -> Layout:
        """Layout of the observations."""
        return Layout.of(self.scenario.observation, self.scenario.decision, self.num_resources)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its observation, decision rules, network settings and weights."""
        digest = sha256(self.scenario.observation.model_dump_json().encode())
        decision = self.scenario.decision
        rule = {"expiry_rule"} if decision.expiry_rule == "violation" else None  # the only one of 0.1.0
        digest.update(decision.model_dump_json(exclude=rule).encode())
        # Settings of the memory count only with a memory, and those of its training never.
        silent = {"lstm_steps"} if self.network.lstm else {"lstm", "lstm_steps"}
        if not self.network.attention:
            silent.add("attention")
        digest.update(self.network.model_dump_json(exclude=silent).encode())
        for name, value in self.net.state_dict().items():
            digest.update(former_name(name).encode())
            digest.update(value.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def spaces(self) -> dict[str, Any]:
        """Observation and action spaces for readers of the artefact; they follow from the scenario."""
        layout, observation = self.layout, self.scenario.observation
        features = {"jobs": layout.features("jobs")} if layout.block("jobs") is not None else {}
        return {
            "observation": {
                "dtype": "float32",
                "size": layout.size,
                "blocks": {
                    block.name: {"offset": block.offset, "shape": list(block.shape)}
                    for block in layout.blocks
                },
                "features": {name: list(columns) for name, columns in features.items()},
            },
            "actions": {"count": layout.num_actions, "slots": layout.window, "wait": layout.num_actions - 1},
            "normaliser": {
                "times": "log2(1 + ticks) / log2(1 + ticks_at_1)",
                "ticks_at_1": observation.time_scale_s / self.scenario.cluster.tick_s,
                "units": [list(sizes) for sizes in self.scenario.sizes],
            },
        }

    @property
    def recurrent(self) -> bool:
        """Whether the policy has a memory of the episode."""
        return isinstance(self.net, RecurrentPolicy)

    def seeing(self, window: int) -> NetworkPolicy:
        """Copy with another window: the number of oldest waiting jobs that it observes and chooses from.

        Raises:
            BadInputError: the network works with the window of its training only, or the window is the ready
                pool of a horizon.
        """
        decision = self.scenario.decision
        if window == decision.window:
            return self
        if decision.tick_driven:
            raise BadInputError(
                "--window",
                f"value {window}: the policy has a ready pool of {decision.window} jobs (decision.horizon), "
                "which is a rule of its scenario",
                "leave it out, or train one with decision.window",
            )
        if window > MOST_SLOTS:
            raise BadInputError("--window", f"value {window} is too large", f"use at most {MOST_SLOTS:,}")
        scenario = self.scenario.model_copy(
            update={"decision": decision.model_copy(update={"window": window})}
        )
        layout = Layout.of(scenario.observation, scenario.decision, self.num_resources)
        with torch.device("meta"):  # shapes alone: no memory and no random numbers
            net = build_policy(layout, self.network)
        weights = self.net.state_dict()
        if {name: value.shape for name, value in net.state_dict().items()} != {
            name: value.shape for name, value in weights.items()
        }:
            raise BadInputError(
                "--window",
                f"value {window}: a policy of network.kind {self.network.kind} chooses among the "
                f"{decision.window} jobs of its training",
                "leave it out, or train one of network.kind=job_scorer",
            )
        net.load_state_dict(weights, assign=True)
        net.eval()
        about = {"trained_window": decision.window} | self.about
        return replace(self, scenario=scenario, net=net, about=about)

    def actor(self, num_envs: int) -> NetworkActor:
        """An actor of the policy in `num_envs` environments."""
        return NetworkActor(self, num_envs)

    def act(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions (batch,) for independent observations (batch, size) and masks (batch, actions).

        Raises:
            TypeError: the policy has a memory, and decides as an `actor` only.
        """
        return self.actions(self.logits(obs, mask))

    @torch.no_grad()
    def logits(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> Tensor:
        """Masked logits (batch, actions) of independent states.

        Raises:
            TypeError: the policy has a memory.
            ValueError: the observations have another size.
        """
        self.check_width(obs)
        if self.recurrent:
            raise TypeError("what a policy with a memory does depends on what it has seen: use an actor")
        with one_thread():
            logits: Tensor = self.net(torch.from_numpy(obs), torch.from_numpy(mask).float())
        return logits

    def check_width(self, obs: NDArray[np.float32]) -> None:
        """Refuse observations of another size: the network would confuse their blocks.

        Raises:
            ValueError: their size is not that of the layout.
        """
        if obs.shape[1] != self._width:
            raise ValueError(f"observations of {obs.shape[1]} numbers for a policy that sees {self._width}")

    @cached_property
    def _width(self) -> int:
        return self.layout.size

    def actions(self, logits: Tensor) -> IntArray:
        """Actions (batch,) by masked logits (batch, actions)."""
        if self.sample:
            chosen = torch.multinomial(torch.softmax(logits, dim=1), 1).squeeze(1)
        else:
            chosen = logits.argmax(dim=1)
        return np.asarray(chosen.numpy(), dtype=np.int64)

    def save(self, folder: Path, more_files: Mapping[str, bytes] | None = None) -> None:
        """Write the artefact; a folder of that name is replaced only once the new one is complete.

        Args:
            folder: of the artefact.
            more_files: name -> content of further files in it.

        Raises:
            OSError: it cannot be written; an old artefact there is untouched.
        """
        new = hidden(folder, "new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir(parents=True)
            self._write(new)
            for name, content in (more_files or {}).items():
                (new / name).write_bytes(content)
            replace_folder(new, folder)
        except OSError as error:
            if error.filename != str(new):
                raise
            # Users do not know the temporary name.
            raise type(error)(error.errno, error.strerror, str(folder)) from None
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _write(self, new: Path) -> None:
        weights = {name: value.detach().cpu().numpy() for name, value in self.net.state_dict().items()}
        (new / WEIGHTS).write_bytes(save(weights))
        settings = {
            "schema": SCHEMA,
            "version": rlsched.__version__,
            "weights": checksum(new / WEIGHTS),
            "scenario": self.scenario.model_dump(mode="json"),
            "network": self.network.model_dump(mode="json"),
            "num_resources": self.num_resources,
            "spaces": self.spaces,
            "about": self.about,
        }
        (new / SETTINGS).write_text(json.dumps(with_checksum(settings), indent=2) + "\n", "utf-8")


def without_initial_weights(network: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Network settings without those for initial weights and scales of older versions.

    Raises:
        BadInputError: without them the network would compute something else.
    """
    random: dict[str, Any] = dict.fromkeys(("waiting", "deferring"))
    random |= {"prior": {}, "sharpness": LINEAR_SCALE, "gain": SCORE_SCALE}
    older = {name: network[name] for name in random if name in network}
    if older and network.get("kind") == "job_scorer" and older != random:
        name = next(name for name, value in random.items() if older.get(name, "") != value)
        raise BadInputError(
            str(folder), f"is of an older version (network.{name})", "train it again with this one"
        )
    return {name: value for name, value in network.items() if name not in random}


def load_policy(path: Path, *, sample: bool = False) -> NetworkPolicy:
    """Read a policy from its folder, a checkpoint or a run folder.

    Its sizes are compared with the header of the weights file first, so that a wrong size takes no memory.

    Raises:
        BadInputError: there is none, or it is damaged, was changed, or is of another version.
    """
    folder = find_policy(path)
    try:
        settings = read_settings(folder)
        # Older versions wrote the privileged blocks, too, which a policy has no weights for.
        scenario = parse(settings["scenario"], str(folder / SETTINGS)).public
        known = without_initial_weights(settings["network"], folder)
        network = validate(Network, known, str(folder / SETTINGS))
        resources = len(scenario.cluster.resources)
        if settings["num_resources"] != resources:
            number = settings["num_resources"]
            raise ValueError(f"num_resources is {number!r:.20}, and its scenario has {resources}")
        layout = Layout.of(scenario.observation, scenario.decision, resources)
        check_shapes(folder / WEIGHTS, shapes_by(layout, network))
        if checksum(folder / WEIGHTS) != settings["weights"]:
            raise ValueError(f"{WEIGHTS} is not what it was")
        weights = load_file(folder / WEIGHTS)
        net = build_policy(layout, network)
        net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except DAMAGED as error:
        if isinstance(error, BadInputError):
            raise
        raise BadInputError(
            str(folder), f"is damaged or of another version ({error})", "train or export it again"
        ) from None
    net.eval()
    return NetworkPolicy(scenario, network, net, resources, settings.get("about", {}), sample)
