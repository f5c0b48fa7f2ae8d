"""Parts of the kernel that calculations do not need and that have had holes."""

from __future__ import annotations

import ctypes
import os

from escape import Given, escape
from kernel import system_call


@escape("gets a ring of io_uring, whose calls no filter sees", "held", held=True)
def io_uring(given: Given) -> int:
    return system_call("io_uring_setup", 4, bytes(120))


@escape("gets a map of BPF", "held", held=True, root=True)
def bpf_map(given: Given) -> int:
    wanted = (ctypes.c_uint32 * 18)(2, 4, 8, 1)
    return system_call("bpf", 0, wanted, 72)


@escape("loads a program of BPF", "held", held=True, root=True)
def bpf_program(given: Given) -> int:
    code = (ctypes.c_uint64 * 2)(0xB7, 0x95)
    name = ctypes.create_string_buffer(b"GPL")
    wanted = (ctypes.c_uint64 * 16)(1 | 2 << 32, ctypes.addressof(code), ctypes.addressof(name))
    return system_call("bpf", 5, wanted, 48)


@escape("watches the machine's counters", "held", held=True, root=True)
def perf(given: Given) -> int:
    wanted = (ctypes.c_uint32 * 32)(1, 128, 0)
    return system_call("perf_event_open", wanted, -1, 0, -1, 0)


@escape("watches a process's counters", "held", held=True)
def perf_of_itself(given: Given) -> int:
    wanted = (ctypes.c_uint32 * 32)(1, 128, 1)
    wanted[10] = 1 << 5 | 1 << 6  # neither the kernel nor the hypervisor
    return system_call("perf_event_open", wanted, 0, -1, -1, 0)


@escape("answers page faults itself", "held", held=True)
def userfaultfd(given: Given) -> int:
    return system_call("userfaultfd", 1)


@escape("answers page faults of the kernel itself", "held", held=True, root=True)
def userfaultfd_of_kernel(given: Given) -> int:
    return system_call("userfaultfd", 0)


@escape("watches what others open", "held", held=True, root=True)
def fanotify(given: Given) -> int:
    return system_call("fanotify_init", 0, os.O_RDONLY)


@escape("changes the machine's clock", "clock", root=True)
def clock(given: Given) -> None:
    wanted = (ctypes.c_int64 * 26)(0x8)  # its estimated error, which nobody misses
    wanted[4] = given["other"]
    system_call("adjtimex", wanted)


@escape("gets memory that the kernel cannot see", "held", held=True, control=False)
def memfd_secret(given: Given) -> int:
    return system_call("memfd_secret", 0)


@escape("asks for the next kernel", "call", control=False)
def kexec(given: Given) -> None:
    _must_be_refused(given, "kexec_load", 0, 1, ctypes.c_void_p(1), 0)


@escape("loads a module into the kernel", "call", control=False)
def module(given: Given) -> None:
    _must_be_refused(given, "init_module", ctypes.c_void_p(1), 1 << 40, ctypes.c_void_p(1))


def _must_be_refused(given: Given, name: str, *arguments) -> None:
    """A call that cannot do anything with these arguments: an error that speaks of them, instead
    of the permission, says that the kernel has looked at them."""
    import errno

    try:
        system_call(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise
    with open(f"{given['writable']}/{given['leak']}", "w") as file:
        file.write(given["mark"])
