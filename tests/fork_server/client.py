"""Stands in for an interpreter: python -IS client.py ADDRESS [-c CODE | PROGRAM] ARGUMENT…

The process that does the work is a fork of the server's (server.py). This one waits for it, passes
signals on and ends as it ends; killed, it takes the other with it. Where the server refuses, or
there is none, this one becomes the real interpreter.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def number_from(server: socket.socket) -> int | None:
    """None: the server has ended."""
    message = server.recv(8, socket.MSG_WAITALL)
    return int.from_bytes(message, "little", signed=True) if len(message) == 8 else None


def ask(server: socket.socket, words: list[str]) -> int:
    """The process that runs it; 0 where there is none."""
    umask = os.umask(0)
    os.umask(umask)
    limits = {
        getattr(resource, name): resource.getrlimit(getattr(resource, name))
        for name in dir(resource)
        if name.startswith("RLIMIT_")
    }
    request = {
        "arguments": words,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": umask,
        "limits": limits,
        "pid": os.getpid(),
    }
    text = json.dumps(request).encode()
    socket.send_fds(server, [len(text).to_bytes(8, "little")], [0, 1, 2])
    server.sendall(text)
    return number_from(server) or 0


def end_as(code: int) -> NoReturn:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def main(address: str, words: list[str]) -> NoReturn:
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(f"\0{address}")
            process = ask(server, words)
        except OSError:
            process = 0
        if process:
            for number in PASSED_ON:
                signal.signal(number, lambda number, _: os.kill(process, number))
            code = number_from(server)
            end_as(1 if code is None else code)
    os.execv(sys.executable, [sys.executable, *words])


main(sys.argv[1], sys.argv[2:])
