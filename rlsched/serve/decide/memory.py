"""What a policy remembers of a cluster, as text that a client keeps and sends back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlsched.errors import BadInputError
from rlsched.learn.policy import Player


def pack(player: Player, env: int) -> str:
    """What is remembered of a cluster, as text."""
    assert player.memory is not None
    whole = torch.cat([part[env].flatten() for part in player.memory])
    return base64.b64encode(whole.numpy().astype("<f4").tobytes()).decode()


def unpack(player: Player, env: int, text: str, where: str) -> None:
    """Remember what a client sends back.

    Raises:
        BadInputError: it is not this policy's.
    """
    remedy = "send back what it said last about this cluster, or leave it out"
    if player.memory is None:
        raise BadInputError(where, "means nothing to a policy that remembers nothing", "leave it out")
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (binascii.Error, ValueError):
        raise BadInputError(where, "is no text of this service", remedy) from None
    sizes = [part[env].numel() for part in player.memory]
    if len(values) != sum(sizes) or not np.isfinite(values).all():
        raise BadInputError(where, "is of another policy", remedy)
    parts: Sequence[Tensor] = torch.split(torch.from_numpy(values.copy()), sizes)
    for part, given in zip(player.memory, parts, strict=True):
        part[env] = given.reshape(part[env].shape)
