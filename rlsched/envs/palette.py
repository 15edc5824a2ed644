"""Numbered colours for the picture of a cluster with a planning horizon."""

from __future__ import annotations

from colorsys import hls_to_rgb

import numpy as np
from numpy.typing import NDArray

Indexed = NDArray[np.uint8]
"""A picture of palette numbers."""

_NAMED = (
    (250, 250, 248),  # paper
    (40, 44, 54),  # ink
    (200, 202, 206),  # line
    (107, 114, 128),  # muted
    (231, 233, 236),  # free
    (16, 17, 20),  # off
    (122, 190, 120),  # supply
    (205, 228, 200),  # forecast
    (240, 190, 90),  # battery and grid
    (214, 39, 40),  # draw
    (66, 125, 190),  # stored
    (243, 244, 246),  # slot
)
PAPER, INK, LINE, MUTED, UNUSED, DARK, SUPPLY, FORECAST, BACKUP, DRAW, STORED, SLOT = range(len(_NAMED))

HUES = 72
"""Number of colours of jobs; the job in row k has colour k modulo this."""

SOLID, PALE, DIM = 16, 16 + HUES, 16 + 2 * HUES
"""First palette numbers of running jobs, of planned jobs, and of jobs on units that will be off."""


def _palette() -> Indexed:
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(_NAMED)] = _NAMED
    paper = np.array(_NAMED[PAPER])
    for k in range(HUES):
        # Steps of the golden ratio keep the hues of successive jobs far apart.
        rgb = 255 * np.array(
            hls_to_rgb(k * 0.618034 % 1.0, (0.46, 0.58, 0.40)[k % 3], (0.62, 0.70, 0.50)[k % 3])
        )
        colours[SOLID + k] = rgb
        colours[PALE + k] = 0.35 * rgb + 0.65 * paper
        colours[DIM + k] = 0.35 * rgb
    return colours


PALETTE = _palette()
"""(256, 3) red, green and blue of every palette number."""
