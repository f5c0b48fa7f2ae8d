"""A Python that has imported torch and forks for each program that it is asked to run, which saves
every program the seconds of CPU time that the imports take.

    python server.py ADDRESS

It listens at ADDRESS in the abstract namespace of Unix sockets until its standard input ends.
client.py asks, and says what a process is made of: arguments, environment, working folder, limits
and the three standard streams. What only the start of an interpreter can give is refused; the
client then becomes a real Python. Neither mpnanny nor anything else of the project is imported
here: which copy of it a program gets, and what that makes of its environment, is the program's.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Any

import program

# What most trainings come to import. None of it starts a thread, which a fork would lose.
WARM = ("torch", "torch._dynamo")
# What is read once, when an interpreter, a C library or torch starts.
STARTS_WITH = (
    *("PYTHON", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS", "DNNL_", "ONEDNN_", "ATEN_", "NPY_"),
    *("TORCH", "PYTORCH", "CUDA_", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG"),
)
READ_LATER = {"PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR"}


def settings(environment: dict[str, str]) -> dict[str, str]:
    """Of an environment, what a process that runs already cannot change any more."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(STARTS_WITH) and name not in READ_LATER
    }


SETTINGS = settings(dict(os.environ))  # before torch adds its own


def can_run(request: dict[str, Any]) -> bool:
    """Whether a fork of this process is what the one that is asked for would be."""
    words = request["arguments"]
    if words[:1] == ["-c"]:
        words = words[1:]
    elif words and not os.path.isfile(os.path.join(request["folder"], words[0])):
        return False  # options of the interpreter; a folder or an archive; a mistake
    return bool(words) and settings(request["environment"]) == SETTINGS


class Server:
    """Waits for requests, forks, and tells each client how its process ended."""

    def __init__(self, address: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"\0{address}")
        self._listening.listen(64)
        self._clients: dict[int, socket.socket] = {}  # by the pid of their process
        self._ended, self._waking = socket.socketpair()  # a byte for each child that ends
        for end in (self._ended, self._waking):
            end.setblocking(False)

    def serve(self) -> dict[str, Any] | None:
        """Returns once the tests have ended; and, with its request, in each child."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        while True:
            clients = list(self._clients.items())
            sources = [sys.stdin, self._ended, self._listening, *self._clients.values()]
            ready, _, _ = select.select(sources, [], [])
            if sys.stdin in ready:
                break
            for pid, client in clients:
                if client in ready:  # It says nothing more, so it was killed.
                    _kill_group(pid)
                    client.close()
                    del self._clients[pid]
            if self._ended in ready:
                self._ended.recv(4096)
                self._reap()
            if self._listening in ready:
                request = self._accept()
                if request is not None:
                    return request
        for pid in self._clients:
            _kill_group(pid)
        self._reap(options=0)
        return None

    def _accept(self) -> dict[str, Any] | None:
        """Forks, unless it refuses. The request in the child, None in this process."""
        client, _ = self._listening.accept()
        with contextlib.ExitStack() as opened:
            size, streams, _, _ = socket.recv_fds(client, 8, 3)
            for stream in streams:
                opened.callback(os.close, stream)
            if len(size) < 8 or _user_of(client) != os.getuid():
                client.close()
                return None
            with client.makefile("rb") as file:
                request = json.loads(file.read(int.from_bytes(size, "little")))
            if not can_run(request):
                _send(client, 0)
                client.close()
                return None
            pid = os.fork()
            if pid == 0:
                client.close()
                self._leave()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                return request
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._clients[pid] = client
        _send(client, pid)
        return None

    def _leave(self) -> None:
        """In the child: nothing of the server is left."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._listening, self._ended, self._waking, *self._clients.values()):
            each.close()

    def _reap(self, options: int = os.WNOHANG) -> None:
        """Tells the clients of the processes that have ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, options)
                if pid == 0:
                    return
                client = self._clients.pop(pid, None)
                if client is not None:
                    _send(client, os.waitstatus_to_exitcode(status))
                    client.close()


def _user_of(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", credentials)[1]
    return user


def _send(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # It was killed, which is seen next.
        client.send(number.to_bytes(8, "little", signed=True))


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


server = Server(sys.argv[1])
print("listens", flush=True)
for name in WARM:
    importlib.import_module(name)
gc.collect()
gc.freeze()  # else the first collection of each child copies what the imports have made
asked = server.serve()
if asked is not None:
    # Here, where no function of the server is left on the stack.
    program.become(asked)
    program.end(lambda: exec(program.code(asked), sys.modules["__main__"].__dict__))
