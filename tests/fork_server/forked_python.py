"""For tests of what a program does, and not of how a process starts or ends: a Python whose
processes are forks of one that has imported torch.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import secrets
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


@functools.cache
def forked_python() -> list[str]:
    """The first words of a command, in the place of `sys.executable`, for as long as the tests run:
    [*forked_python(), "train.py"] or [*forked_python(), "-c", "print(1)"].
    """
    address = f"mpnanny-tests-{secrets.token_hex(16)}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", address],
        env={**environment, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None
    server.stdout.readline()  # It listens; what it imports, the first program waits for.
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    return [sys.executable, "-IS", str(HERE / "client.py"), address]
