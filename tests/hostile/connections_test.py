"""Who has no token, and does not say what he wants, locks nobody out; and tokens that can be
guessed are none.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
from collections.abc import Iterator

import pytest
from conftest import PROGRAM

UNFINISHED = 700  # more than the server takes connections
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@contextlib.contextmanager
def serving(*options: str, token: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """The port, and the first lines of stderr: two where no token is asked for."""
    environment = {key: value for key, value in os.environ.items() if key != "MPNANNY_TOKEN"}
    if token is not None:
        environment["MPNANNY_TOKEN"] = token
    command = [str(PROGRAM), "serve", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        said = [process.stderr.readline()]
        if token is None and said[0].startswith("listening"):
            said.append(process.stderr.readline())
        found = re.search(r":(\d+)/mcp", said[0])
        yield int(found[1]) if found else 0, said
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def status(port: int, *, path: str = "/mcp") -> int:
    """Of a whole request on a connection of its own; 0 if it was closed without an answer."""
    body = json.dumps(PING)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        try:
            client.sendall((head + body).encode())
            answer = client.recv(4096)
        except ConnectionError:
            return 0
    return int(answer.split()[1]) if answer else 0


@pytest.fixture
def room() -> Iterator[None]:
    """Descriptors for all the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNFINISHED + 300
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


@pytest.mark.parametrize("sent", [HEAD, BODY, b""], ids=["head", "body", "nothing"])
def test_requests_without_an_end_lock_nobody_out(
    room: None, tmp_path: pathlib.Path, sent: bytes
) -> None:
    with (
        serving("--http", "127.0.0.1:0", "--root", str(tmp_path)) as (port, _),
        contextlib.ExitStack() as open_ones,
    ):
        usual = status(port)
        assert usual not in (0, 503)
        for number in range(UNFINISHED):
            client = socket.create_connection(("127.0.0.1", port), timeout=20)
            open_ones.enter_context(client)
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
            if number % 50 == 49:
                assert status(port) == usual, f"beside {number + 1} unfinished requests"
        assert [status(port) for _ in range(20)] == [usual] * 20


@pytest.mark.parametrize("token", ["a", "0123456789abcde"])
def test_a_short_token_is_refused_off_loopback(token: str, tmp_path: pathlib.Path) -> None:
    options = ["--root", str(tmp_path), "--http"]
    with serving(*options, "0.0.0.0:0", token=token) as (port, said):
        assert not port and f"{len(token)} characters" in said[0], said
    with serving(*options, "127.0.0.1:0", token=token) as (port, said):
        assert port, said
    with serving(*options, "0.0.0.0:0", token=token.ljust(16, "x")) as (port, said):
        assert port, said


def test_without_a_token_it_is_said_who_can_ask(tmp_path: pathlib.Path) -> None:
    with serving("--http", "127.0.0.1:0", "--root", str(tmp_path)) as (port, said):
        assert port and "every user of this machine can ask" in said[1], said
