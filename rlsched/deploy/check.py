"""`rlsched cluster check`: recognises the kind of a file by its content, and checks it."""

from __future__ import annotations

from pathlib import Path

import yaml

from rlsched.deploy.commands import Refusal
from rlsched.deploy.docker import DOCKERFILE, check_compose, check_dockerfile
from rlsched.deploy.findings import Place, Report
from rlsched.deploy.kubernetes import CheckService, check_manifest
from rlsched.deploy.ray_up import check_ray_up
from rlsched.deploy.slurm import check_slurm
from rlsched.deploy.texts import walk
from rlsched.errors import BadInputError
from rlsched.settings_files import read_text
from rlsched.yaml_text import LimitedLoader, reason

KINDS = "name a file of ray up, Kubernetes, Slurm, Docker or compose"


def check(path: Path, refusal: Refusal, check_service: CheckService) -> Report:
    """Check one file, without a cluster and without a network.

    The two functions check the arguments of commands, and those of the decision service.
    """
    report = Report()
    place = Place(report, str(path))
    try:
        text = read_text(path, KINDS)
        if text.startswith("#!") and "\n#SBATCH" in text:
            check_slurm(text, place, refusal)
        elif "dockerfile" in path.name.lower() or DOCKERFILE.match(text):
            check_dockerfile(text, place)
        elif text.startswith("#!"):
            place.error("is a script without #SBATCH lines", KINDS)
        else:
            _check_yaml(text, place, refusal, check_service)
    except BadInputError as error:
        report.problems.append(error)
    except yaml.YAMLError as error:
        place.error(reason(error), "correct the YAML")
    return report


def _check_yaml(text: str, place: Place, refusal: Refusal, check_service: CheckService) -> None:
    documents = [document for document in yaml.load_all(text, LimitedLoader) if document is not None]
    for key_place, value in walk(documents, place):
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):  # as `on:`, which is true
                key_place.error(f"key {key!r} is not text", "quote it")
    if place.report.problems:
        return
    match documents:
        case [{"apiVersion": _} | {"kind": _}, *_]:
            for k, document in enumerate(documents, 1):
                document_place = place if k == 1 else Place(place.report, f"{place.file}: document {k}")
                check_manifest(document, document_place, refusal, check_service)
        case [{"cluster_name": _, "provider": _} as config]:
            check_ray_up(config, place, refusal)
        case [{"services": _} as config]:
            check_compose(config, place, refusal)
        case _:
            place.error("is of no known kind", f"{KINDS}: these have cluster_name, kind, services or #SBATCH")
