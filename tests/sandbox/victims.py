"""What an escape is let loose on, and how it is seen from outside that it has done harm."""

from __future__ import annotations

import fcntl
import os
import pathlib
import select
import stat
import subprocess
import uuid
from typing import Any

from kernel import LIBC

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_SET_BY_US = 0xF0  # immutable, only appended to, not dumped, times of reading not kept


class Victim:
    """Made before a run, asked after it, removed at the end. `facts`: what the code may know."""

    inherited: tuple[int, ...] = ()  # descriptors that are open where the sandbox is started

    def __init__(self, at: pathlib.Path, owner: int, writable: pathlib.Path) -> None:
        self.mark = uuid.uuid4().hex
        self.at, self.owner, self.writable = at, owner, writable
        self.facts: dict[str, Any] = {"mark": self.mark}
        self.make()

    def make(self) -> None: ...

    def settle(self) -> None:
        """After all have been made: waits for what takes a moment."""

    def harm(self) -> str:
        """What was done to it; empty if nothing."""
        raise NotImplementedError

    def close(self) -> None: ...


def snapshot(top: pathlib.Path) -> dict[str, tuple[Any, ...]]:
    """All that can be known of the files below `top`, their times of reading aside."""
    seen: dict[str, tuple[Any, ...]] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        info = path.lstat()
        words: tuple[Any, ...] = (
            oct(info.st_mode),
            info.st_uid,
            info.st_gid,
            info.st_mtime_ns,
            info.st_nlink,
        )
        if stat.S_ISREG(info.st_mode):
            attributes = [(each, os.getxattr(path, each)) for each in sorted(os.listxattr(path))]
            with path.open("rb") as file:
                flags = fcntl.ioctl(file, _GET_FLAGS, bytes(8))
                words = (*words, file.read(), tuple(attributes), flags)
        seen[str(path.relative_to(top))] = words
    return seen


class Folder(Victim):
    def make(self) -> None:
        (self.at / "sub" / "empty").mkdir(parents=True)
        for name in ("file", "other", "sub/inner"):
            path = self.at / name
            path.write_text("precious " * 8)
            path.chmod(0o600)
            os.setxattr(path, "user.mark", b"precious")
            os.utime(path, ns=(10**18, 10**18))
        (self.at / "link").symlink_to("other")
        for path in [self.at, *self.at.rglob("*")]:
            os.chown(path, self.owner, self.owner, follow_symlinks=False)
        self.before = snapshot(self.at)
        self.facts |= {"folder": str(self.at), "file": str(self.at / "file")}

    def harm(self) -> str:
        after = snapshot(self.at)
        changed = [
            each
            for each in self.before.keys() | after.keys()
            if self.before.get(each) != after.get(each)
        ]
        return f"changed: {', '.join(sorted(changed))}" if changed else ""

    def close(self) -> None:
        """So that it can be removed whatever has become of it."""
        for path in self.at.rglob("*"):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    flags = int.from_bytes(fcntl.ioctl(file, _GET_FLAGS, bytes(8)), "little")
                    fcntl.ioctl(file, _SET_FLAGS, (flags & ~_SET_BY_US).to_bytes(8, "little"))


class InheritedFile(Folder):
    def make(self) -> None:
        super().make()
        self.inherited = (os.open(self.at / "file", os.O_RDWR),)
        self.before = snapshot(self.at)

    def close(self) -> None:
        os.close(self.inherited[0])
        super().close()


class InheritedFolder(Folder):
    def make(self) -> None:
        super().make()
        self.inherited = (os.open(self.at, os.O_RDONLY | os.O_DIRECTORY),)

    def close(self) -> None:
        os.close(self.inherited[0])
        super().close()


class InheritedMemory(Victim):
    def make(self) -> None:
        self.inherited = (os.memfd_create("victim", 0),)
        os.write(self.inherited[0], b"precious")

    def harm(self) -> str:
        now = os.pread(self.inherited[0], 8, 0)
        return "" if now == b"precious" else f"the memory is {now!r}"

    def close(self) -> None:
        os.close(self.inherited[0])


_VICTIM = """
import ctypes, os, sys
held = ctypes.create_string_buffer(os.environ["SECRET"].encode())
there = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
print(ctypes.addressof(held), there, flush=True)
while sys.stdin.readline():
    print(held.value.decode(), flush=True)
"""


class Process(Victim):
    """Of the same user; it holds a secret in its environment and memory, and a file."""

    def make(self) -> None:
        self.at.mkdir()
        os.chown(self.at, self.owner, self.owner)
        self.file = self.at / "its file"
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-S", "-c", _VICTIM, self.file, self.mark],
            env={"SECRET": self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=self.owner,
            group=self.owner,
            extra_groups=[],
            process_group=0,
        )
        self.number = self.process.pid

    def settle(self) -> None:
        address, there = self.process.stdout.readline().split()
        self.facts |= {
            "process": self.number,
            "address": int(address),
            "its_file": int(there),
            "leak": f"leak-{uuid.uuid4().hex}",
        }
        del self.facts["mark"]
        self.before = self.state()

    def state(self) -> dict[str, Any]:
        here = pathlib.Path(f"/proc/{self.number}")
        words = here.joinpath("stat").read_text().rpartition(")")[2].split()
        return {
            "stopped or ended": words[0] in "TtZX",
            "debugger": "TracerPid:\t0\n" not in here.joinpath("status").read_text(),
            "group": words[2],
            "priority": os.getpriority(os.PRIO_PROCESS, self.number),
            "processors": os.sched_getaffinity(self.number),
            "scheduler": os.sched_getscheduler(self.number),
            "disk": LIBC.syscall(252 if os.uname().machine == "x86_64" else 31, 1, self.number),
            "limits": here.joinpath("limits").read_text(),
            "oom": here.joinpath("oom_score_adj").read_text(),
            "file": self.file.read_bytes(),
        }

    def harm(self) -> str:
        if self.process.poll() is not None:
            return "it has been ended"
        try:
            after = self.state()
        except OSError:
            return "it has been ended"
        changed = [each for each in after if after[each] != self.before[each]]
        if not changed and not self.holds_its_memory():
            changed = ["memory"]
        return f"changed: {', '.join(changed)}" if changed else ""

    def holds_its_memory(self) -> bool:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answers, _, _ = select.select([self.process.stdout], [], [], 5)
        return bool(answers) and self.process.stdout.readline().strip() == self.mark

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class InheritedProcess(Process):
    def make(self) -> None:
        super().make()
        self.inherited = (os.pidfd_open(self.number),)

    def close(self) -> None:
        os.close(self.inherited[0])
        super().close()


class Secret(Process):
    """Harm is done where the code knows what only the process knows."""

    def harm(self) -> str:
        return _leaked(self)


class StartersSecret(Victim):
    """A variable of the environment of whoever starts the sandbox."""

    def make(self) -> None:
        self.facts = {"leak": f"leak-{uuid.uuid4().hex}"}
        self.variable = (f"MY_TOKEN_{uuid.uuid4().hex[:6]}", self.mark)

    def harm(self) -> str:
        return _leaked(self)


class Call(StartersSecret):
    """A call that the kernel looked at; harm is told by a file that only then is written."""

    def make(self) -> None:
        self.facts = {"leak": f"leak-{uuid.uuid4().hex}", "mark": self.mark}
        self.variable = None


def _leaked(victim: Victim) -> str:
    leak = victim.writable / victim.facts["leak"]
    known = leak.exists() and victim.mark.encode() in leak.read_bytes()
    return "its secret was read" if known else ""
