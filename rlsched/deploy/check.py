"""`rlsched cluster check`: what a file is, by what stands in it, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlsched.deploy import compose, dockerfile, kubernetes, ray_up, slurm
from rlsched.deploy.documents import read_documents
from rlsched.deploy.findings import Found, Place, Refusal, Served
from rlsched.errors import BadInputError
from rlsched.settings_files import read_text

KINDS = "a file of ray up, Kubernetes, Slurm, Docker or compose"


def check(path: Path, rlsched: Refusal, served: Served) -> tuple[Found | None, list[BadInputError]]:
    """Look at one file; nothing outside of this machine is asked.

    Args:
        path: of the file.
        rlsched: why `rlsched` would refuse its arguments.
        served: refuses arguments of the decision service.

    Returns:
        What it is, None where that cannot be told, and a line for everything that is wrong with it.
    """
    place = Place(str(path))
    try:
        text = read_text(path, f"name {KINDS}")
    except BadInputError as error:
        return None, [error]
    if not text.strip():
        return None, [place.wrong("is empty", f"name {KINDS}")]
    if slurm.is_slurm(text):
        return slurm.describe(text), list(slurm.check_slurm(text, place, rlsched))
    if dockerfile.is_dockerfile(path, text):
        return dockerfile.describe(text), list(dockerfile.check_dockerfile(text, place, rlsched))
    if text.startswith("#!"):
        return None, [place.wrong("is a script without #SBATCH lines", f"name {KINDS}")]
    try:
        documents = read_documents(text, str(path))
    except BadInputError as error:
        return None, [error]
    return _check_yaml(documents, place, rlsched, served)


def _check_yaml(
    documents: list[Any], place: Place, rlsched: Refusal, served: Served
) -> tuple[Found | None, list[BadInputError]]:
    first: Any = documents[0] if documents else None
    if kubernetes.is_manifest(first):
        problems = list(kubernetes.check_manifests(documents, place, rlsched, served))
        return (None if problems else kubernetes.describe(documents)), problems
    if ray_up.is_ray_up(first):
        problems = list(ray_up.check_ray_up(first, place, rlsched))
        return (None if problems else ray_up.describe(first)), problems
    if compose.is_compose(first):
        problems = list(compose.check_compose(first, place, rlsched))
        return (None if problems else compose.describe(first)), problems
    held = f"holds {', '.join(first)}" if isinstance(first, dict) else f"holds {type(first).__name__}"
    return None, [place.wrong(held, f"name {KINDS}: these have cluster_name, kind, services or #SBATCH")]
