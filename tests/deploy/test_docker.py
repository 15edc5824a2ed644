"""Dockerfiles and compose files with something wrong: each is refused with exactly these lines."""

from __future__ import annotations

import pytest

from .conftest import Broken

WRONG: list[tuple[str, list[str], list[str]]] = [
    (
        "Dockerfile",
        ["FROM python:3.11-slim", "FROM python:3.12-slim"],
        ["line 5: 'python:3.12-slim' has Python 3.12; use 3.11, as all other nodes"],
    ),
    (
        "Dockerfile",
        ["FROM python:3.11-slim", "FROM python"],
        ["line 5: 'python' is another image every day; name a version"],
    ),
    (
        "Dockerfile",
        ["FROM python:3.11-slim", "FORM python:3.11-slim"],
        ["line 5: unknown instruction 'FORM'; did you mean 'FROM'?"],
    ),
    (
        "Dockerfile",
        ["FROM python:3.11-slim", "FROM rayproject/ray:2.59.0-py312"],
        [
            "line 5: 'rayproject/ray:2.59.0-py312' has ray 2.59.0; use 2.60.0, as here",
            "line 5: 'rayproject/ray:2.59.0-py312' has Python 3.12; use 3.11, as all other nodes",
        ],
    ),
    (
        "Dockerfile",
        ["FROM python:3.11-slim", "FROM python:${VERSION}"],
        ["line 5: 'python:${VERSION}': VERSION is no ARG yet; write ARG VERSION=... above"],
    ),
    (
        "Dockerfile",
        ["COPY --chown=ray constraints.txt", "COPY --chwon=ray constraints.txt"],
        [
            (
                "line 25: COPY has no flag --chwon; did you mean 'chown'? use one of chmod, chown, "
                "exclude, from, link, parents"
            )
        ],
    ),
    (
        "Dockerfile",
        ["COPY --chown=ray constraints.txt", "COPY --chown=ray constraint.txt"],
        ["line 25: 'constraint.txt': no such file or folder here; build from the repository's root"],
    ),
    (
        "Dockerfile",
        ["EXPOSE 6379", "EXPOSES 6379"],
        ["line 48: unknown instruction 'EXPOSES'; did you mean 'EXPOSE'?"],
    ),
    (
        "Dockerfile",
        ['CMD ["rlsched", "--help"]', 'CMD ["rlsched", "trian"]'],
        [
            (
                "line 49: 'rlsched trian' would refuse this: No such command 'trian'. Did you mean "
                "'train', 'trace'?; see rlsched --help"
            )
        ],
    ),
    (
        "Dockerfile",
        ['CMD ["rlsched", "--help"]', "CMD ['rlsched']\nCMD [rlsched]"],
        [
            'line 49: [\'rlsched\'] is no JSON; write ["program", "argument"]',
            'line 50: [rlsched] is no JSON; write ["program", "argument"]',
        ],
    ),
    (
        "Dockerfile",
        ["ray[default]==2.60.0", "ray[default]==2.59.0"],
        ["line 33: installs ray 2.59.0; use 2.60.0, as here"],
    ),
    (
        "Dockerfile",
        ["--policy fcfs --backfill easy", "--polcy fcfs --backfill easy"],
        [
            (
                "line 38: 'rlsched simulate' would refuse this: No such option: --polcy (Possible "
                "options: --policy); see rlsched simulate --help"
            )
        ],
    ),
    (
        "Dockerfile",
        ['"torch==$(sed', '"touch==$(sed'],
        ["line 33: torch is not installed yet, so the largest build of it comes along; install it above"],
    ),
    (
        "Dockerfile",
        ["COPY --chown=ray tune_configs", "COPY --from=build tune_configs"],
        ["line 34: no stage 'build'; write FROM ... AS above"],
    ),
    (
        "compose.yaml",
        ["depends_on:", "depend_on:"],
        ["services.worker.depend_on: unknown key; did you mean 'depends_on'?"],
    ),
    (
        "compose.yaml",
        ["      head: {condition", "      haed: {condition"],
        [
            (
                "services.worker.depends_on.haed: no service 'haed'; did you mean 'head'? use one of "
                "head, serve, worker"
            )
        ],
    ),
    (
        "compose.yaml",
        ["condition: service_healthy", "condition: service_healty"],
        [
            (
                "services.worker.depends_on.head.condition: value 'service_healty'; did you mean "
                "'service_healthy'? use one of service_completed_successfully, service_healthy, "
                "service_started"
            )
        ],
    ),
    (
        "compose.yaml",
        ["    healthcheck:\n", "    x-healthcheck:\n"],
        ["services.worker.depends_on.head: 'head' has no healthcheck, so it is never healthy; give it one"],
    ),
    (
        "compose.yaml",
        ["  shm_size: 2gb  ", "  x-shm_size: 2gb  "],
        [
            (
                "services.head.shm_size: is missing: Docker gives 64 MB, and Ray keeps its objects "
                "there; write shm_size: 2gb"
            ),
            (
                "services.worker.shm_size: is missing: Docker gives 64 MB, and Ray keeps its objects "
                "there; write shm_size: 2gb"
            ),
        ],
    ),
    (
        "compose.yaml",
        ['["shared:/shared"]', '["share:/shared"]'],
        [
            "services.head.volumes.0: no volume 'share'; did you mean 'shared'? use one of shared",
            "services.worker.volumes.0: no volume 'share'; did you mean 'shared'? use one of shared",
            "services.serve.volumes.0: no volume 'share'; did you mean 'shared'? use one of shared",
        ],
    ),
    (
        "compose.yaml",
        ["127.0.0.1:8265:8265", "8265-8265:x"],
        ["services.head.ports.0: value '8265-8265:x'; write it as \"8000:8000\""],
    ),
    (
        "compose.yaml",
        ["ray start --address=head:6379", "ray start --adress=head:6379"],
        [
            (
                "services.worker.command: 'ray start' would refuse this: No such option '--adress'. (Did "
                "you mean one of: '--address', '--node-ip-address', '--resources'?); see ray start "
                "--help"
            )
        ],
    ),
    (
        "compose.yaml",
        ["--disable-usage-stats --block\n    depends", "--disable-usage-stats\n    depends"],
        ["services.worker.command: `ray start` without --block ends the container; add --block"],
    ),
    (
        "compose.yaml",
        ["dockerfile: clusters/Dockerfile", "dockerfile: clusters/Dockerfil"],
        ["services.head.build: 'clusters/Dockerfil': no such file in '..'; name the Dockerfile"],
    ),
    (
        "compose.yaml",
        ["image: rlsched:0.1.0-ray2.60.0", "image: rlsched"],
        [
            "services.head.image: 'rlsched' is another image every day; name a version",
            "services.worker.image: 'rlsched' is another image every day; name a version",
            "services.serve.image: 'rlsched' is another image every day; name a version",
        ],
    ),
    (
        "compose.yaml",
        ["    RAY_AUTH_MODE: token\n", ""],
        [
            (
                "services.head.environment: a head with a token in its ~/.ray asks all others for it, "
                "who do not know; set RAY_AUTH_MODE=token, and give all nodes the token"
            ),
            (
                "services.worker.environment: a head with a token in its ~/.ray asks all others for it, "
                "who do not know; set RAY_AUTH_MODE=token, and give all nodes the token"
            ),
        ],
    ),
    (
        "compose.yaml",
        ["  image: rlsched:0.1.0-ray2.60.0\n", ""],
        [
            "services.worker: has no image and is not built; add image or build",
            "services.serve: has no image and is not built; add image or build",
        ],
    ),
    (
        "compose.yaml",
        ["      retries: 24", "      retries: many"],
        [
            "services.head.healthcheck.retries: value 'many'; use a number",
            "services.serve.healthcheck.retries: value 'many'; use a number",
        ],
    ),
    (
        "compose.yaml",
        ["rlsched serve green=", "rlsched sevre green="],
        [
            (
                "services.serve.command: 'rlsched sevre' would refuse this: No such command 'sevre'. Did "
                "you mean 'serve'?; see rlsched --help"
            )
        ],
    ),
]


@pytest.mark.parametrize(("name", "change", "lines"), WRONG, ids=range(len(WRONG)))
def test_it_is_refused(name: str, change: list[str], lines: list[str], broken: Broken) -> None:
    assert broken(name, *change) == lines
