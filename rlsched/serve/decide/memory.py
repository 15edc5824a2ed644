"""The recurrent state of a policy for a cluster, as text that a client stores and sends back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlsched.errors import BadInputError
from rlsched.learn.acting import NetworkActor


def pack(actor: NetworkActor, env: int) -> str:
    """The recurrent state of a cluster as text."""
    assert actor.memory is not None
    flat = torch.cat([part[env].flatten() for part in actor.memory])
    return base64.b64encode(flat.numpy().astype("<f4").tobytes()).decode()


def unpack(actor: NetworkActor, env: int, text: str, path: str) -> None:
    """Restore the recurrent state of a cluster.

    Args:
        actor: of the policy.
        env: index of the cluster.
        text: as `pack` wrote it.
        path: of the field in error messages.

    Raises:
        BadInputError: the text is not of this policy.
    """
    remedy = "send back what it said last about this cluster, or leave it out"
    if actor.memory is None:
        raise BadInputError(path, "is not supported by a policy without a memory", "leave it out")
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (binascii.Error, ValueError):
        raise BadInputError(path, "is no text of this service", remedy) from None
    sizes = [part[env].numel() for part in actor.memory]
    if len(values) != sum(sizes) or not np.isfinite(values).all():
        raise BadInputError(path, "is of another policy", remedy)
    parts: Sequence[Tensor] = torch.split(torch.from_numpy(values.copy()), sizes)
    for part, restored in zip(actor.memory, parts, strict=True):
        part[env] = restored.reshape(part[env].shape)
