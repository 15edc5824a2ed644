"""Cross-checks that hold for several kinds of files: versions, images, and how Ray is started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from rlsched.deploy.commands import option
from rlsched.deploy.findings import Place

RAY = version("ray")  # installed; nodes with another version cannot join its cluster

_RAY_VERSION = re.compile(r"(?:\bray(?:\[[^\]]{0,99}\])?\s*==\s*|/ray(?:-ml)?:|[:-]ray)(\d+\.[\w.]*\w)")
_SPOT = re.compile(r"(?i)(?:type|model|gke-spot)': '(?:spot|true)'|preemptible': true")


def walk(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Each value of a document, with its place."""
    yield place, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from walk(item, place / key)


def check_texts(document: Any, place: Place) -> None:
    """Check all images, and report other versions of Ray than the installed one: their nodes cannot join."""
    for value_place, value in walk(document, place):
        if not isinstance(value, str):
            continue
        for ray_version in set(_RAY_VERSION.findall(value)) - {RAY}:
            value_place.error(f"Ray {ray_version} is not the installed version", f"use {RAY}")
        if value_place.path[-1:] == ("image",):
            check_image(value_place, value)


def check_image(place: Place, image: str) -> None:
    """Report an image without a version."""
    tag = image.rpartition("/")[2].partition(":")[2]
    if "@" not in image and "$" not in image and tag in {"", "latest"}:
        place.error(f"image {image!r} has no version, so nodes may differ", "add its version")


def check_head(place: Place, node: Any) -> None:
    """Report a head on a spot instance."""
    if _SPOT.search(str(node)):
        place.error("the head is on a spot instance: its loss ends the cluster", "use an on-demand instance")


def check_ray_start(place: Place, commands: list[list[str]], texts: list[str], *, block: bool) -> None:
    """Check that workers join one head at its port, with a token.

    The texts are those of each process that starts Ray, with its environment variables. Where it must not
    return, `block` is set.
    """
    starts = [words for words in commands if words[:2] == ["ray", "start"]]
    heads = [words for words in starts if "--head" in words]
    if len(heads) != 1:
        place.error(f"starts {len(heads)} heads", "write one `ray start --head`")
        return
    port = option(heads[0], "--port") or "6379"
    for words in starts:
        address = option(words, "--address")
        if address is not None and address.rpartition(":")[2] not in {port, "1"}:  # 1: a variable
            place.error(f"a worker joins {address!r}, but the head listens at port {port}", "use one port")
    if block and not all("--block" in words for words in starts):
        place.error("`ray start` without --block returns at once, which ends Ray", "add --block")
    if not all("RAY_AUTH_MODE" in text for text in texts):
        place.error(
            "RAY_AUTH_MODE is not set: a head with a token refuses nodes without it", "set it to token"
        )
