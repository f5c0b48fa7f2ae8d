"""More memory than is allowed, of every kind; each tries for given["bytes"], in pieces."""

from __future__ import annotations

import ctypes
import mmap
import os
import time

from escape import Given, escape
from kernel import LIBC, checked, library, system_call

_PIECE = b"x" * (16 << 20)


def _pieces(given: Given) -> range:
    return range(given["bytes"] // len(_PIECE))


def _stay() -> None:
    time.sleep(0.7)  # to be seen


@escape("takes memory of its own", "memory")
def anonymous(given: Given) -> None:
    held = [bytearray(_PIECE) for _ in _pieces(given)]
    _stay()
    del held


@escape("takes memory in files that nobody has mapped", "memory")
def memfd(given: Given) -> None:
    for _ in _pieces(given):
        os.write(system_call("memfd_create", "evil", 0), _PIECE)
    _stay()


@escape("takes memory in files that nobody has mapped, by growing one", "memory")
def memfd_grown(given: Given) -> None:
    there = system_call("memfd_create", "evil", 0)
    library("posix_fallocate", there, 0, given["bytes"])
    _stay()


@escape("takes memory in /dev/shm", "memory")
def shared_files(given: Given) -> None:
    for at in _pieces(given):
        with open(f"/dev/shm/{given['left']}{at}", "wb") as file:
            file.write(_PIECE)
    _stay()


@escape("takes memory in files of /dev/shm that it has removed", "memory")
def removed_shared_files(given: Given) -> None:
    held = []
    for at in _pieces(given):
        name = f"/dev/shm/{given['left']}{at}"
        held.append(open(name, "wb"))
        os.unlink(name)
        held[-1].write(_PIECE)
        held[-1].flush()
    _stay()


@escape("maps shared memory without a name", "memory")
def shared_mapping(given: Given) -> None:
    mapped = mmap.mmap(-1, given["bytes"])
    for at in range(0, given["bytes"], 4096):
        mapped[at] = 1
    _stay()


@escape("takes System V segments and lets go of them", "memory")
def segments(given: Given) -> None:
    for at in _pieces(given):
        made = library("shmget", given["key"] + at, len(_PIECE), 0o1600)
        there = checked(LIBC.shmat(made, None, 0))
        ctypes.memset(there, 1, len(_PIECE))
        library("shmdt", ctypes.c_void_p(there))
    _stay()


@escape("takes memory in many processes", "memory")
def many_processes(given: Given) -> None:
    for at in _pieces(given):
        if os.fork() == 0:
            held = bytearray(os.urandom(1) * len(_PIECE))
            time.sleep(1)
            os._exit(len(held) & at & 0)
    _stay()


@escape("takes memory in many processes that have lost their parents", "memory")
def many_orphans(given: Given) -> None:
    for at in _pieces(given):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                held = bytearray(os.urandom(1) * len(_PIECE))
                time.sleep(1)
                os._exit(len(held) & at & 0)
            os._exit(0)
    _stay()


@escape("keeps memory in files of processes that sleep", "memory")
def memfd_in_processes(given: Given) -> None:
    for _ in _pieces(given):
        if os.fork() == 0:
            os.write(system_call("memfd_create", "evil", 0), _PIECE)
            time.sleep(1)
            os._exit(0)
    _stay()


@escape("passes memory to a socket and closes it", "memory")
def memory_in_flight(given: Given) -> None:
    import array
    import socket

    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for _ in range(given["bytes"] // (64 << 20)):
        there = system_call("memfd_create", "evil", 0)
        for _ in range(4):
            os.write(there, _PIECE)
        handed = array.array("i", [there])
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        os.close(there)
    _stay()
    other.close()
