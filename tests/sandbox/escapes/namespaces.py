"""Other views of the machine: none is made or entered, in which the rules would be others."""

from __future__ import annotations

import ctypes
import os

from escape import Given, escape
from kernel import system_call

_MOUNTS, _USERS, _PROCESSES, _NETWORK, _IPC, _NAMES = (
    0x20000,
    0x10000000,
    0x20000000,
    0x40000000,
    0x8000000,
    0x4000000,
)
_SIGCHLD = 17


@escape("gets a user namespace of its own, with all privileges in it", "held", held=True)
def unshare_user(given: Given) -> None:
    system_call("unshare", _USERS)


@escape("gets a namespace of mounts", "held", held=True)
def unshare_mounts(given: Given) -> None:
    system_call("unshare", _USERS | _MOUNTS)


@escape("gets a network of its own", "held", held=True)
def unshare_network(given: Given) -> None:
    system_call("unshare", _USERS | _NETWORK | _IPC | _NAMES)


@escape("starts a process in namespaces of its own by clone", "held", held=True)
def clone_user(given: Given) -> None:
    child = system_call("clone", _USERS | _SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        import time

        time.sleep(20)
        os._exit(0)


@escape("starts a process in namespaces of its own by clone3", "held", held=True)
def clone3_user(given: Given) -> None:
    arguments = (ctypes.c_uint64 * 8)(_USERS, 0, 0, 0, _SIGCHLD, 0, 0, 0)
    child = system_call("clone3", arguments, 64)
    if child == 0:
        import time

        time.sleep(20)
        os._exit(0)


@escape("enters the namespaces of its parents", "held", held=True, control=False)
def setns(given: Given) -> None:
    entered, last = 0, None
    for process in (1, os.getppid(), given["starter"]):
        for name in ("user", "mnt", "pid", "net", "ipc", "uts"):
            try:
                there = os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY)
                system_call("setns", there, 0)
                entered += 1
            except OSError as error:
                last = error
    if not entered:
        raise last or OSError("nothing to enter")


@escape("enters the namespaces of a process by its descriptor", "held", held=True, control=False)
def setns_by_descriptor(given: Given) -> None:
    system_call("setns", system_call("pidfd_open", given["starter"], 0), _MOUNTS | _USERS)


@escape("mounts a file system", "held", held=True, control=False)
def mount(given: Given) -> None:
    there = given["writable"] + "/mounted"
    os.mkdir(there)
    system_call("mount", "none", there, "tmpfs", 0, None)


@escape("binds a folder of the user's into its own", "held", held=True, control=False)
def bind_mount(given: Given) -> None:
    there = given["writable"] + "/bound"
    os.mkdir(there)
    system_call("mount", "/etc", there, None, 4096, None)


@escape("makes a mount writable again", "held", held=True, control=False)
def remount(given: Given) -> None:
    last = OSError("nothing to mount")
    for each in ("/", "/proc", "/sys", "/dev"):
        try:
            system_call("mount", "none", each, None, 32 | 4096, None)
        except OSError as error:
            last = error
    raise last


@escape("mounts by the newer calls", "held", held=True, control=False)
def new_mount_calls(given: Given) -> None:
    there = given["writable"] + "/newly"
    os.mkdir(there)
    context = system_call("fsopen", "tmpfs", 0)
    system_call("fsconfig", context, 6, None, None, 0)
    made = system_call("fsmount", context, 0, 0)
    system_call("move_mount", made, "", -100, there, 4)


@escape("copies a tree of mounts", "held", held=True, root=True)
def open_tree(given: Given) -> int:
    return system_call("open_tree", -100, "/", 1)


@escape("takes another folder as its root", "held", held=True, root=True)
def chroot(given: Given) -> None:
    os.chroot(given["writable"])


@escape("swaps the root", "held", held=True, control=False)
def pivot_root(given: Given) -> None:
    there = given["writable"] + "/pivot"
    os.mkdir(there)
    system_call("pivot_root", there, there)


@escape("becomes another user", "held", held=True, root=True)
def setuid(given: Given) -> None:
    os.setresuid(12345, 12345, 12345)


@escape("renames the machine", "host name", root=True, control=False)
def sethostname(given: Given) -> None:
    import socket

    socket.sethostname(given["mark"])
