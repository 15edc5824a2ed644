"""Convolutions over the image of the grid, and an MLP over the rest [Venkataswamy 2023, table A.5].

The observation vector holds the profile (`sim.layout`); the image is drawn from it here, on the network's own
device, so that rollouts and batches carry a hundredth of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from rlsched.errors import BadInputError
from rlsched.learn.networks.blocks import Blocks, EncodedPolicy, Recall, masked, unchanged
from rlsched.scenario import PRIVILEGED
from rlsched.sim.layout import Layout

Size = Literal["small", "medium", "large"]

FILTERS = 32
EXTRA_LAYERS: dict[Size, int] = {"small": 1, "medium": 2, "large": 3}
"""Convolutions after the first [Venkataswamy 2023, table A.5]."""
JOB_UNITS: dict[Size, int] = {"small": 128, "medium": 300, "large": 400}
"""Units of the layer over everything but the image [Venkataswamy 2023, table A.5]."""
IMAGE_UNITS, JOINT_UNITS = 256, 128


def draw_images(profile: Tensor, units: Sequence[int]) -> Tensor:
    """(batch, row, column) images of `profile` blocks (batch, resource, 3, row): 1 used, 0 free, -1 off.

    The same cells as `sim.picture` draws.
    """
    parts = []
    for r, count in enumerate(units):
        column = torch.arange(count, device=profile.device, dtype=profile.dtype)
        # Shares are counts over units, rounded: half a unit of slack takes the rounding away.
        used = profile[:, r, 0, :, None] * count - 0.5
        off = count - profile[:, r, 2, :, None] * count - 0.5
        is_off = column > off
        parts.append(torch.where(is_off, -1.0, (column <= used).to(profile.dtype)))
    return torch.cat(parts, dim=2)


class ImagePolicy(EncodedPolicy):
    """CNN policy: encodings of the image and of the other blocks, each normalised, then joined by a layer.

    Its weights fit one cluster and one window.

    Args:
        layout: with a `profile`.
        units: (resource,) units of the cluster: columns of the image.
        size: of the encoder.

    Raises:
        BadInputError: the image is too small for the convolutions of this size.
    """

    def __init__(self, layout: Layout, units: Sequence[int], size: Size) -> None:
        super().__init__()
        self.units = tuple(units)
        self.blocks = Blocks(layout)
        self.rest_blocks = [b.name for b in layout.blocks if b.name not in {"profile", *PRIVILEGED}]
        rows, columns = layout.horizon, sum(units)
        channels = [1, *[FILTERS] * (1 + EXTRA_LAYERS[size])]
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            # Padded by one cell, so that a layer halves its input exactly and small clusters keep all layers.
            layers += [nn.Conv2d(before, after, kernel_size=4, stride=2, padding=1), nn.ReLU()]
            rows, columns = rows // 2, columns // 2
        if not rows or not columns:
            raise BadInputError(
                "network.size",
                f"value {size!r} has {len(channels) - 1} convolutions, too many for an image of "
                f"{layout.horizon} x {sum(units)} cells",
                "take a smaller one, or network.kind=job_scorer",
            )
        self.of_image = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(FILTERS * rows * columns, IMAGE_UNITS), nn.ReLU()
        )
        self.norm_image = nn.LayerNorm(IMAGE_UNITS)
        rest = sum(layout.size_of(name) for name in self.rest_blocks)
        self.of_rest = nn.Sequential(nn.Linear(rest, JOB_UNITS[size]), nn.ReLU())
        self.norm_rest = nn.LayerNorm(JOB_UNITS[size])
        self.joint = nn.Sequential(nn.Linear(IMAGE_UNITS + JOB_UNITS[size], JOINT_UNITS), nn.ReLU())
        self.width = JOINT_UNITS
        self.head = nn.Linear(JOINT_UNITS, layout.num_actions)
        nn.init.orthogonal_(self.head.weight, 0.01)
        nn.init.zeros_(self.head.bias)

    def encode(self, vector: Tensor, mask: Tensor, recall: Recall = unchanged) -> Tensor:
        """Joint encoding (batch, width) of the image and the other blocks."""
        image = draw_images(self.blocks(vector, "profile"), self.units).unsqueeze(1)
        rest = torch.cat([self.blocks(vector, name).flatten(1) for name in self.rest_blocks], dim=1)
        parts = [self.norm_image(self.of_image(image)), self.norm_rest(self.of_rest(rest))]
        return recall(self.joint(torch.cat(parts, dim=1)))

    def choose(self, encoded: Tensor, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""
        return masked(self.head(encoded), mask)

    def noop_layer(self) -> tuple[nn.Module, float]:
        """The last layer."""
        return self.head, 1.0

    def judge(self) -> nn.Module:
        """New head that scores all actions from the encoding: -> (batch, actions)."""
        return nn.Linear(self.head.in_features, self.head.out_features)
