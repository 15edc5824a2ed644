"""Letters of 5 x 8 pixels, so that a picture can say what it shows without any font or plotting library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HEIGHT, PITCH = 8, 6  # pixels: of a letter, and from one to the next

# Five columns a letter, the lowest bit on top.
_COLUMNS = {
    "0": "3e5149453e", "1": "00427f4000", "2": "4261514946", "3": "2141454b31", "4": "1814127f10",
    "5": "2745454539", "6": "3c4a494930", "7": "0171090503", "8": "3649494936", "9": "064949291e",
    "A": "7e1111117e", "B": "7f49494936", "C": "3e41414122", "D": "7f4141221c", "E": "7f49494941",
    "F": "7f09090901", "G": "3e4149497a", "H": "7f0808087f", "I": "00417f4100", "J": "2040413f01",
    "K": "7f08142241", "L": "7f40404040", "M": "7f020c027f", "N": "7f0408107f", "O": "3e4141413e",
    "P": "7f09090906", "Q": "3e4151215e", "R": "7f09192946", "S": "4649494931", "T": "01017f0101",
    "U": "3f4040403f", "V": "1f2040201f", "W": "3f4038403f", "X": "6314081463", "Y": "0708700807",
    "Z": "6151494543",
    "a": "2054545478", "b": "7f48444438", "c": "3844444420", "d": "384444487f", "e": "3854545418",
    "f": "087e090102", "g": "18a4a4a47c", "h": "7f08040478", "i": "00447d4000", "j": "4080847d00",
    "k": "7f10284400", "l": "00417f4000", "m": "7c04180478", "n": "7c08040478", "o": "3844444438",
    "p": "fc24242418", "q": "18242418fc", "r": "7c08040408", "s": "4854545420", "t": "043f444020",
    "u": "3c4040207c", "v": "1c2040201c", "w": "3c4030403c", "x": "4428102844", "y": "1ca0a0a07c",
    "z": "4464544c44",
    " ": "0000000000", "%": "2313086462", ".": "0060600000", ",": "0050300000", ":": "0036360000",
    "-": "0808080808", "+": "08083e0808", "/": "2010080402", "_": "4040404040", "(": "001c224100",
    ")": "0041221c00", "?": "0201510906",
}  # fmt: skip

_BITS = {
    letter: np.array(
        [[column >> k & 1 for column in bytes.fromhex(columns)] for k in range(HEIGHT)], np.bool_
    )
    for letter, columns in _COLUMNS.items()
}


def width(text: str, scale: int = 1) -> int:
    """Pixels that a text takes, without the gap behind it."""
    return max(0, len(text) * PITCH - 1) * scale


def write(image: NDArray[np.uint8], text: str, top: int, left: int, colour: int, scale: int = 1) -> None:
    """Write a text into a picture of palette numbers; what does not fit is cut off.

    Args:
        image: (height, width) to write into.
        text: a letter that is not known is shown as a question mark.
        top: pixel row of the upper edge.
        left: pixel column of the left edge.
        colour: palette number.
        scale: pixels per pixel of a letter.
    """
    for k, letter in enumerate(text):
        bits = _BITS.get(letter, _BITS["?"]).repeat(scale, axis=0).repeat(scale, axis=1)
        at = left + k * PITCH * scale
        place = image[top : top + bits.shape[0], at : at + bits.shape[1]]
        place[bits[: place.shape[0], : place.shape[1]]] = colour
