"""The hostile program: runs the escapes that it is told to, each in a process of its own.

inside.py WRITABLE < {escape: what it may know}. What an escape says of itself
goes to <writable>/said/ and is shown where a test fails; it decides nothing. Those that are held
stay until <writable>/seen exists; <writable>/ready says that they are there.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from escape import Escape, all_escapes
from kernel import set_name

SECONDS = 4.0


def wait_for(done, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def start(each: Escape, at: int, given: dict, writable: pathlib.Path) -> int:
    process = os.fork()
    if process:
        return process
    set_name(f"escape{at}")
    # Both are open before it: it may see another root, or be another user, afterwards.
    folder = os.open(writable, os.O_RDONLY)
    said = os.open(writable / "said" / each.name, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        result = each.run({**given, "writable": str(writable)})
        words = f"done: {result!r}"
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
    try:
        os.pwrite(said, words[:500].encode(), 0)
        if each.held:
            wait_for(lambda: is_there("seen", folder), 20)
    finally:
        os._exit(0)


def is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder)
        return True
    except OSError:
        return False


def ended(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] == process
    except ChildProcessError:
        return True


def has_said(path: pathlib.Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def main() -> None:
    given = json.load(sys.stdin)
    writable = pathlib.Path(sys.argv[1])
    (writable / "said").mkdir()
    known = all_escapes()
    chosen = [(at, known[name]) for at, name in enumerate(given)]
    for at, each in chosen:
        if each.held:
            continue
        process = start(each, at, given[each.name], writable)
        if not wait_for(lambda process=process: ended(process), SECONDS):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    held = [(each, start(each, at, given[each.name], writable)) for at, each in chosen if each.held]
    wait_for(lambda: all(has_said(writable / "said" / each.name) for each, _ in held), 2 * SECONDS)
    (writable / "ready").write_text("")
    if held:
        wait_for((writable / "seen").exists, 20)
    for _, process in held:
        os.kill(process, signal.SIGKILL)
    (writable / "ran").write_text("\n".join(each.name for _, each in chosen))


if __name__ == "__main__":
    main()
