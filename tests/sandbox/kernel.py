"""System calls that Python has no function for; each raises OSError as Python's own do."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.shmat.restype = ctypes.c_void_p

# Those of numbers that differ between machines; from 424 on they are the same.
_X86_64 = {
    "clone": 56,
    "ptrace": 101,
    "pivot_root": 155,
    "adjtimex": 159,
    "mount": 165,
    "init_module": 175,
    "mq_open": 240,
    "mq_unlink": 241,
    "mq_timedsend": 242,
    "kexec_load": 246,
    "add_key": 248,
    "keyctl": 250,
    "ioprio_set": 251,
    "unshare": 272,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "memfd_create": 319,
    "bpf": 321,
    "userfaultfd": 323,
    "fsetxattr": 190,
    "truncate": 76,
    "fchmod": 91,
    "sched_setattr": 314,
    "migrate_pages": 256,
}
_AARCH64 = {
    "clone": 220,
    "ptrace": 117,
    "pivot_root": 41,
    "adjtimex": 171,
    "mount": 40,
    "init_module": 105,
    "mq_open": 180,
    "mq_unlink": 181,
    "mq_timedsend": 182,
    "kexec_load": 104,
    "add_key": 217,
    "keyctl": 219,
    "ioprio_set": 30,
    "unshare": 97,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "memfd_create": 279,
    "bpf": 280,
    "userfaultfd": 282,
    "fsetxattr": 7,
    "truncate": 45,
    "fchmod": 52,
    "sched_setattr": 274,
    "migrate_pages": 238,
}
_SAME = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "pidfd_open": 434,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
    "memfd_secret": 447,
    "fchmodat2": 452,
    "setxattrat": 463,
}
NUMBERS = {**(_AARCH64 if platform.machine() == "aarch64" else _X86_64), **_SAME}


def checked(result: int | None) -> int:
    if result is None or result in (-1, 2**64 - 1):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def system_call(name: str, *arguments: Any) -> int:
    given = [each.encode() if isinstance(each, str) else each for each in arguments]
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    return checked(LIBC.syscall(ctypes.c_long(NUMBERS[name]), *given))


def library(name: str, *arguments: Any) -> int:
    given = [each.encode() if isinstance(each, str) else each for each in arguments]
    return checked(getattr(LIBC, name)(*given))


def set_name(name: str) -> None:
    LIBC.prctl(15, name.encode(), 0, 0, 0)
