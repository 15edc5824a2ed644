"""The recurrent state of a policy for a cluster, as text that a client stores and sends back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlsched.errors import BadInputError
from rlsched.learn.acting import Player


def pack(player: Player, env: int) -> str:
    """The recurrent state of a cluster as text."""
    assert player.memory is not None
    flat = torch.cat([part[env].flatten() for part in player.memory])
    return base64.b64encode(flat.numpy().astype("<f4").tobytes()).decode()


def unpack(player: Player, env: int, text: str, path: str) -> None:
    """Restore the recurrent state of a cluster.

    Args:
        player: of the policy.
        env: index of the cluster.
        text: as `pack` wrote it.
        path: of the field in error messages.

    Raises:
        BadInputError: the text is not of this policy.
    """
    remedy = "send back what it said last about this cluster, or leave it out"
    if player.memory is None:
        raise BadInputError(path, "is not supported by a policy without a memory", "leave it out")
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (binascii.Error, ValueError):
        raise BadInputError(path, "is no text of this service", remedy) from None
    sizes = [part[env].numel() for part in player.memory]
    if len(values) != sum(sizes) or not np.isfinite(values).all():
        raise BadInputError(path, "is of another policy", remedy)
    parts: Sequence[Tensor] = torch.split(torch.from_numpy(values.copy()), sizes)
    for part, restored in zip(player.memory, parts, strict=True):
        part[env] = restored.reshape(part[env].shape)
