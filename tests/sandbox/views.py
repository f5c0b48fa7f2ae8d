"""Terminals, and what a process that stays has got hold of: descriptors, namespaces, users."""

from __future__ import annotations

import fcntl
import os
import pathlib
import select
from typing import Any

from victims import Victim


class Terminal(Victim):
    def make(self) -> None:
        self.master, self.slave = os.openpty()
        name = os.ttyname(self.slave)
        os.chown(name, self.owner, self.owner)
        self.facts |= {"terminal": name}
        import tty

        tty.setraw(self.slave)
        self.before = self.state()

    def state(self) -> tuple[Any, ...]:
        import termios

        return termios.tcgetattr(self.slave), fcntl.ioctl(self.slave, termios.TIOCGWINSZ, bytes(8))

    def harm(self) -> str:
        if select.select([self.master], [], [], 0)[0]:
            return f"it shows {os.read(self.master, 100)!r}"
        if select.select([self.slave], [], [], 0)[0]:
            return f"into it was typed {os.read(self.slave, 100)!r}"
        return "its settings are others" if self.state() != self.before else ""

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


class InheritedTerminal(Terminal):
    def make(self) -> None:
        super().make()
        self.inherited = (self.slave,)


class Held(Victim):
    """What the process has and where it is, as /proc shows it from outside; see confined.py."""

    found = ""

    def look(self, process: int, parent: int) -> None:
        """`parent`: the hostile program itself, as the sandbox has made it."""
        had = _links(parent)
        terminals = os.stat("/dev/pts").st_dev
        harms = [
            f"it has {link}"
            for number, (link, device) in _links(process).items()
            if had.get(number, ("",))[0] != link
            and (device == terminals or any(each in link for each in _NOT_TO_BE_HAD))
        ]
        if "/" in _detached(process):
            harms.append("it has a tree of mounts of its own")
        children = [process, *_children(process)]
        for each in children:
            mine, theirs = _view(each), _view(parent)
            harms += [f"its {key} is another" for key in mine if mine[key] != theirs[key]]
        self.found = "; ".join(dict.fromkeys(harms))

    def harm(self) -> str:
        return self.found


_NOT_TO_BE_HAD = (
    "[io_uring]",
    "bpf-",
    "[perf_event]",
    "[userfaultfd]",
    "[fanotify]",
    "/dev/loop",
    "/dev/mem",
    "/dev/port",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/net",
    "/dev/vhost",
    "/dev/uinput",
    "/dev/tty",
    "socket:",
    "secretmem",
)


def _links(process: int) -> dict[str, tuple[str, int]]:
    """What each descriptor is, and the device that it lies on."""
    found = {}
    for each in pathlib.Path(f"/proc/{process}/fd").glob("*"):
        try:
            found[each.name] = (os.readlink(each), each.stat().st_dev)
        except OSError:
            continue
    return found


def _detached(process: int) -> list[str]:
    """What it has open that lies below none of the mounts that it sees."""
    here = pathlib.Path(f"/proc/{process}")
    mounts = {each.split()[0] for each in here.joinpath("mountinfo").read_text().splitlines()}
    found = []
    for number, (link, _) in _links(process).items():
        try:
            lines = here.joinpath("fdinfo", number).read_text().splitlines()
        except OSError:
            continue
        if not any(each.startswith("mnt_id:") and each.split()[1] in mounts for each in lines):
            found.append(link)
    return found


def _children(process: int) -> list[int]:
    try:
        text = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in text.split()]


def _view(process: int) -> dict[str, Any]:
    here = pathlib.Path(f"/proc/{process}")
    try:
        words = here.joinpath("status").read_text().splitlines()
        kept = ("Uid:", "Gid:", "CapEff:", "CapPrm:", "Seccomp:")
        return {
            "root": os.readlink(here / "root"),
            "list of mounts": here.joinpath("mountinfo").read_text(),
            **{f"{name} namespace": os.readlink(here / "ns" / name) for name in _NAMESPACES},
            **{line.split(":")[0]: line for line in words if line.startswith(kept)},
        }
    except OSError:
        return {}


_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
