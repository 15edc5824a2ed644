"""A token file that other users may open is warned about, once and by whoever starts."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.serve.api.tokens import Tokens, read_tokens
from rlsched.serve.settings import ServeConfig

from .service import TOKEN, Service, example


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (0o620, 1)])
def test_a_token_file_of_others_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: int
) -> None:
    path = tmp_path / "my tokens"
    path.write_text(f"{TOKEN}\n")
    path.chmod(mode)
    assert read_tokens(path) == [TOKEN]
    line = f"{path}: other users may open the token file; run: chmod 600 '{path}'"
    assert caplog.messages == [line] * warned
    assert Tokens(path).renew() == []  # in a replica, again and again
    assert len(caplog.messages) == warned


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "holds no token"),
        ("# mine\n\n", "holds no token"),
        ("short\n", "token 1 is too short"),
        ("ä" * 20, "token 1"),
    ],
)
def test_tokens_that_are_none(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "tokens").write_text(text, "utf-8")
    with pytest.raises(BadInputError, match=line):
        read_tokens(tmp_path / "tokens")


def test_tokens(hpc: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN}\nanother-token-of-enough-length\n")
    service = Service(hpc, token_file=tmp_path / "tokens")
    for path, body in (
        ("/v1/decisions", example(hpc)),
        ("/v1/policy", None),
        ("/metrics", None),
        ("/", None),
    ):
        for headers in (
            {},
            {"authorization": "Bearer x"},
            {"authorization": TOKEN},
            {"authorization": "Bearer é"},
        ):
            reply = service.ask(path, body, **headers)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer, Basic realm="rlsched"')
        assert service.ask(path, body, authorization=f"Bearer {TOKEN}").status == 200
        assert service.ask(path, body, authorization=f"bearer  {TOKEN}").status == 200
        for name, status in ((f"me:{TOKEN}", 200), ("me:other", 401), (TOKEN, 401)):
            basic = base64.b64encode(name.encode()).decode()
            assert service.ask(path, body, authorization=f"Basic {basic}").status == status
    assert service.ask("/healthz").status == 200
    service.close()


def test_tokens_are_those_that_stand_in_the_file_now(hpc: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n")
    service = Service(hpc, token_file=path)
    new = "another-token-of-enough-length"

    def allowed() -> list[bool]:
        replies = [service.ask("/v1/policy", authorization=f"Bearer {token}") for token in (TOKEN, new)]
        return [reply.status == 200 for reply in replies]

    assert service.tokens.renew() == []
    assert allowed() == [True, False]
    path.write_text(f"{TOKEN}\n{new}\n")
    assert service.tokens.renew() == ["tokens were loaded from the file again"]
    assert allowed() == [True, True]
    path.write_text(f"{new}\n")
    service.tokens.renew()
    assert allowed() == [False, True]
    for nothing in ("", "short\n"):
        path.write_text(nothing)
        (line,) = service.tokens.renew()
        assert line.startswith(f"tokens stay what they were: {path}: ")
        assert service.tokens.renew() == []  # not every two seconds
        assert allowed() == [False, True]
    path.unlink()
    assert len(service.tokens.renew()) == 1
    assert allowed() == [False, True]
    service.close()


def test_a_link_to_tokens_may_lead_elsewhere_tomorrow(tmp_path: Path) -> None:
    """So do secrets that Kubernetes mounts."""
    for number in (1, 2):
        (tmp_path / f"tokens-{number}").write_text(f"{number}-{TOKEN}\n")
    link = tmp_path / "tokens"
    link.symlink_to("tokens-1")
    config = ServeConfig.model_validate({"policies": "runs/policy", "token_file": link}).rooted()
    tokens = Tokens(config.token_file)
    assert tokens.allow(f"1-{TOKEN}".encode())
    link.unlink()
    link.symlink_to("tokens-2")
    tokens.renew()
    assert [tokens.allow(f"{number}-{TOKEN}".encode()) for number in (1, 2)] == [False, True]
