"""Runs a command on a kernel, or in a container, that offers less: without.py LAYER… -- COMMAND …

A seccomp filter lets the calls of a layer answer as they do where it is missing:
  landlock     kernels before 5.13, or built without it
  namespaces   machines whose rules forbid them to users; clone3 with them, whose arguments a filter
               cannot see
  mounts       as where user namespaces come without privileges: nothing can be mounted in them
  seccomp      no further filter can be set
Landlock of an older version is abi.c's.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_ENOSYS, _EPERM, _EINVAL = 38, 1, 22
_X86 = platform.machine() == "x86_64"
_NEW_NAMESPACES = 0x7E020080  # of clone's and unshare's flags


def _statement(code: int, value: int) -> bytes:
    return struct.pack("HBBI", code, 0, 0, value)


def _jump(code: int, value: int, yes: int, no: int) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _refuse(number: int, error: int) -> bytes:
    return _jump(0x15, number, 0, 1) + _statement(0x06, 0x00050000 | error)


def _refuse_where(number: int, argument: int, test: int, value: int, error: int) -> bytes:
    """Where the argument's lower half passes the test; the number is loaded again after it."""
    return (
        _jump(0x15, number, 0, 4)
        + _statement(0x20, 16 + 8 * argument)
        + _jump(test, value, 0, 1)
        + _statement(0x06, 0x00050000 | error)
        + _statement(0x20, 0)
    )


def _rules(layers: list[str]) -> bytes:
    rules = b""
    if "landlock" in layers:
        rules += b"".join(_refuse(each, _ENOSYS) for each in (444, 445, 446))
    if "namespaces" in layers:
        rules += _refuse_where(272 if _X86 else 97, 0, 0x45, _NEW_NAMESPACES, _EPERM)
        rules += _refuse_where(56 if _X86 else 220, 0, 0x45, _NEW_NAMESPACES, _EPERM)
        rules += _refuse(435, _ENOSYS)
    if "mounts" in layers:
        numbers = (165, 155) if _X86 else (40, 41)
        rules += b"".join(_refuse(each, _EPERM) for each in (*numbers, 428, 429, 430, 432, 442))
    if "seccomp" in layers:
        rules += _refuse(317 if _X86 else 277, _EINVAL)
        rules += _refuse_where(157 if _X86 else 167, 0, 0x15, 22, _EINVAL)
    return rules


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def main() -> None:
    at = sys.argv.index("--")
    code = _statement(0x20, 0) + _rules(sys.argv[1:at]) + _statement(0x06, 0x7FFF0000)
    held = ctypes.create_string_buffer(code)
    program = _Program(len(code) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    # Without new privileges from now on, as the filter of a user needs it; a root's needs it not,
    # and containers do not set it.
    if os.geteuid() != 0 and libc.prctl(38, 1, 0, 0, 0) != 0:
        sys.exit("no_new_privs was refused")
    if libc.prctl(22, 2, ctypes.byref(program)) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])


if __name__ == "__main__":
    main()
