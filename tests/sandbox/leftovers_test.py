"""Whatever ends first, the code, its supervisor, the server or its client: nothing of the code is
left.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

import pytest
from confined import FULL, PYTHON, SANDBOX, WEAKER, Kernel, below

PROGRAM = SANDBOX.parent / "mpnanny"
NO_NAMESPACES = next(each for each in WEAKER if each.layers == ("namespaces",))
NOTHING_BUT_SECCOMP = next(each for each in WEAKER if each.layers == ("landlock", "namespaces"))

# Ignores what can be ignored, leaves its session, its parent and its group, and stays. The first
# word says where it tells that it is there, the others only mark it.
STUBBORN = """
import ctypes, os, signal, sys, time
mark = sys.argv[1]
ctypes.CDLL(None).prctl(1, 0)
for each in range(1, 65):
    try: signal.signal(each, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, 0)
            os.execvp("sleep", [mark, "4242"])
        os._exit(0)
open(os.environ["TMPDIR"] + "/there", "w").close()
if len(sys.argv) > 2: os._exit(0)
time.sleep(4242)
"""


def marked(mark: str) -> dict[int, str]:
    """Processes whose command line holds the mark, those of the test aside."""
    found = {}
    for each in pathlib.Path("/proc").iterdir():
        try:
            if each.name.isdigit() and int(each.name) != os.getpid():
                words = (each / "cmdline").read_bytes().decode(errors="replace")
                if (
                    mark in words
                    and (each / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                ):
                    found[int(each.name)] = words.replace("\0", " ")[:100]
        except OSError:
            continue
    return found


def wait_until(condition, seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Confined:
    """The stubborn program in mpnanny-sandbox."""

    def __init__(self, place, kernel: Kernel, *words: str, seconds: int = 60) -> None:
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.folder = place.path / self.mark
        self.folder.mkdir()
        leave = [] if kernel is FULL else ["--allow-weaker"]
        command = [str(place.sandbox), *leave, "--seconds", str(seconds), "--memory-mb", "500"]
        command += ["--processes", "40", "--file-mb", "10", "--writable", str(self.folder), "--"]
        command += [*PYTHON, "-c", STUBBORN, self.mark, *words]
        if kernel.layers:
            command = [*PYTHON, str(place.code / "without.py"), *kernel.layers, "--", *command]
        # A process between the test and the sandbox, as the server is.
        self.starter = subprocess.Popen(
            [*PYTHON, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Under nohup it would be ignored, by the sandbox as well.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def is_there(self) -> bool:
        return (self.folder / "there").exists()

    def sandboxes(self) -> list[int]:
        """Processes of mpnanny-sandbox itself, the outermost first."""
        found = []
        for each in below(self.starter.pid):
            try:
                if os.readlink(f"/proc/{each}/exe").endswith("mpnanny-sandbox"):
                    found.append(each)
            except OSError:
                continue
        return found

    def left(self) -> dict[int, str]:
        return marked(self.mark)

    def close(self) -> None:
        for each in self.left():
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.starter.communicate()


KERNELS = pytest.mark.parametrize(
    "kernel", [FULL, NO_NAMESPACES, NOTHING_BUT_SECCOMP], ids=lambda each: each.name
)


@pytest.fixture
def confined(place):
    made = []

    def start(*arguments, **more):
        made.append(Confined(place, *arguments, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


@KERNELS
def test_daemons_end_with_the_program(confined, kernel):
    one = confined(kernel, "end")
    out, err = one.starter.communicate(timeout=30)
    assert one.is_there(), err
    assert json.loads(out.strip().splitlines()[-1])["end"]["exit_code"] == 0
    assert wait_until(lambda: not one.left(), 3), one.left()


@KERNELS
def test_daemons_end_with_the_time(confined, kernel):
    one = confined(kernel, seconds=2)
    out, err = one.starter.communicate(timeout=30)
    assert one.is_there(), err
    assert json.loads(out.strip().splitlines()[-1])["end"]["exceeded"] == "time"
    assert wait_until(lambda: not one.left(), 3), one.left()


@KERNELS
@pytest.mark.parametrize("at", [0, 1, 2])
def test_nothing_outlives_a_process_of_the_sandbox_that_is_killed(confined, kernel, at):
    one = confined(kernel)
    assert wait_until(one.is_there)
    ours = one.sandboxes()
    if at >= len(ours):
        pytest.skip("there are fewer")
    os.kill(ours[at], signal.SIGKILL)
    assert wait_until(lambda: not one.left(), 5), one.left()


@KERNELS
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_outlives_a_sandbox_that_is_asked_to_end(confined, kernel, how):
    one = confined(kernel)
    assert wait_until(one.is_there)
    os.kill(one.sandboxes()[0], how)
    assert wait_until(lambda: not one.left(), 5), one.left()


@KERNELS
def test_nothing_outlives_who_has_started_the_sandbox(confined, kernel):
    one = confined(kernel)
    assert wait_until(one.is_there)
    one.starter.kill()
    assert wait_until(lambda: not one.left(), 5), one.left()


class Server:
    """`mpnanny serve --allow-exec`, which runs the stubborn program in place of a Python."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.folder = folder
        script = folder / "stubborn.py"
        script.write_text(STUBBORN)
        python = folder / "python"
        words = " ".join([*PYTHON, str(script), self.mark])
        python.write_text(f"#!/bin/sh\nexec {words}\n")
        python.chmod(0o755)
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--allow-exec", "--root", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        client = {"name": "test", "version": "1"}
        version = "2025-06-18"
        self.send(1, "initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        self.process.stdout.readline()
        arguments = {"code": "1", "python": str(python)}
        self.send(2, "tools/call", name="auto_diff", arguments=arguments)

    def send(self, number, method, **params) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if number:
            message["id"] = number
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def is_there(self) -> bool:
        return bool(list(self.folder.glob("*/there")))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in marked(self.mark):
            os.kill(each, signal.SIGKILL)


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["cancelled", "client gone", "killed", "asked to end"])
def test_nothing_outlives_a_call(server, how):
    assert wait_until(server.is_there), "the program has not begun"
    if how == "cancelled":
        server.send(None, "notifications/cancelled", requestId=2)
    elif how == "client gone":
        server.process.stdin.close()
    elif how == "killed":
        server.process.kill()
    else:
        server.process.terminate()
    assert wait_until(lambda: not marked(server.mark), 10), marked(server.mark)
    if how != "killed":  # then nobody is left to remove it
        assert wait_until(lambda: not server.is_there(), 5), "its folder is left"
