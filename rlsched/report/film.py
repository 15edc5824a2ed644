"""A film of an episode as a GIF, one frame per tick."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

from PIL import Image

from rlsched.envs.grid_picture import draw_indexed
from rlsched.envs.palette import PALETTE, Indexed
from rlsched.errors import BadInputError
from rlsched.evaluate.history import knows_ticks, record
from rlsched.evaluate.policy import EvaluationEpisode, Policy

FRAMES = 200  # ticks in a film, from the first on

FRAME_MS = 120  # whole hundredths of a second


class Film(NamedTuple):
    """A film, and the number of ticks that it shows."""

    gif: bytes
    ticks: int


def film(policy: Policy, episode: EvaluationEpisode, units: Sequence[int], frames: int = FRAMES) -> Film:
    """Run the first ticks of an episode with a planning horizon, `frames` at most, and draw each of them.

    Raises:
        BadInputError: a policy without a horizon, or an episode that is over at once.
    """
    if not knows_ticks(policy):
        raise BadInputError("--render", f"{policy.name} plays without a horizon", "end it in .png")
    drawn: list[Indexed] = []
    record(
        policy,
        episode,
        units,
        ticks=frames,
        look=lambda sim: drawn.append(draw_indexed(sim, 0, episode.jobs)),
    )
    if not drawn:
        raise BadInputError(
            "--render", "the first episode was over at once: nothing to film", "end it in .png"
        )
    return Film(to_gif(drawn), len(drawn))


def to_gif(frames: Sequence[Indexed]) -> bytes:
    """Pictures of palette numbers as a GIF with exact colours, which repeats."""
    images = []
    for frame in frames:
        image = Image.fromarray(frame)
        image.putpalette(PALETTE.tobytes())
        images.append(image)
    buffer = BytesIO()
    images[0].save(
        buffer, "GIF", save_all=True, append_images=images[1:], duration=FRAME_MS, loop=0, optimize=False
    )
    return buffer.getvalue()
