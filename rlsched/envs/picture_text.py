"""Text in pictures of palette numbers, set in the font that Pillow ships."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 8
"""Height of a line of small text without its descenders, in pixels at scale 1."""

_FONT_SIZE, _BASELINE = 10, 7  # pixels at scale 1: size of the font, baseline below the upper edge


@cache
def _font(scale: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(_FONT_SIZE * scale)


def width(text: str, scale: int = 1) -> int:
    """Width of a text in pixels."""
    return round(_font(scale).getbbox(text)[2])


def write(image: NDArray[np.uint8], text: str, y: int, x: int, colour: int, scale: int = 1) -> None:
    """Write a text into a picture of palette numbers; parts beyond its edges are cut off.

    Args:
        image: (height, width), written in place.
        text: one line.
        y: pixel row of the upper edge of capital letters.
        x: pixel column of the left edge.
        colour: palette number.
        scale: font size, as a multiple of the smallest.
    """
    mask = Image.new("1", (image.shape[1], image.shape[0]))
    baseline = y + _BASELINE * scale
    ImageDraw.Draw(mask).text((x, baseline), text, fill=1, font=_font(scale), anchor="ls")
    image[np.asarray(mask)] = colour
