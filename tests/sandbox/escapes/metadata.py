"""What is known of the user's files besides their bytes: modes, owners, times, attributes."""

from __future__ import annotations

import fcntl
import os

from escape import Given, escape
from kernel import library, system_call

_GET_FLAGS, _SET_FLAGS, _SET_XFLAGS, _GET_XFLAGS = 0x80086601, 0x40086602, 0x401C5820, 0x801C581F


@escape("opens a private file to everybody")
def chmod(given: Given) -> None:
    os.chmod(given["file"], 0o666)


@escape("locks the user out of a folder")
def chmod_folder(given: Given) -> None:
    os.chmod(given["folder"] + "/sub", 0)


@escape("changes the mode of a file by a descriptor that was opened for reading")
def fchmod(given: Given) -> None:
    os.fchmod(os.open(given["file"], os.O_RDONLY), 0o666)


@escape("changes the mode of a file by fchmodat")
def fchmodat(given: Given) -> None:
    os.chmod("file", 0o666, dir_fd=os.open(given["folder"], os.O_RDONLY))


@escape("changes the mode of a file by fchmodat2")
def fchmodat2(given: Given) -> None:
    system_call("fchmodat2", -100, given["file"], 0o666, 0)


@escape("makes a file run as its owner")
def set_user_id(given: Given) -> None:
    os.chmod(given["file"], 0o4777)


@escape("gives a file to somebody else", root=True)
def chown(given: Given) -> None:
    os.chown(given["file"], 12345, 12345)


@escape("gives a file to somebody else by its descriptor", root=True)
def fchown(given: Given) -> None:
    os.fchown(os.open(given["file"], os.O_RDONLY), 12345, 12345)


@escape("gives a link to somebody else", root=True)
def lchown(given: Given) -> None:
    os.lchown(given["folder"] + "/link", 12345, 12345)


@escape("changes a file's times")
def utime(given: Given) -> None:
    os.utime(given["file"], (1, 1))


@escape("changes a file's times by a descriptor that was opened for reading")
def futimens(given: Given) -> None:
    os.utime(os.open(given["file"], os.O_RDONLY), (1, 1))


@escape("touches a file")
def touch(given: Given) -> None:
    os.utime(given["file"])


@escape("sets an attribute of a file")
def setxattr(given: Given) -> None:
    os.setxattr(given["file"], "user.evil", b"1")


@escape("sets an attribute by a descriptor that was opened for reading")
def fsetxattr(given: Given) -> None:
    os.setxattr(os.open(given["file"], os.O_RDONLY), "user.evil", b"1")


@escape("sets an attribute by setxattrat", control=False)
def setxattrat(given: Given) -> None:
    import ctypes

    value = ctypes.create_string_buffer(b"1")
    arguments = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 1)
    system_call("setxattrat", -100, given["file"], 0, "user.evil", arguments, 16)


@escape("removes an attribute of a file")
def removexattr(given: Given) -> None:
    os.removexattr(given["file"], "user.mark")


@escape("removes an attribute by a descriptor that was opened for reading")
def fremovexattr(given: Given) -> None:
    os.removexattr(os.open(given["file"], os.O_RDONLY), "user.mark")


@escape("sets an access list of a file", control=False)
def access_list(given: Given) -> None:
    acl = bytes.fromhex("02000000 01000700ffffffff 04000700ffffffff 20000700ffffffff")
    os.setxattr(given["file"], "system.posix_acl_access", acl)


@escape("gives a file privileges", root=True)
def file_capability(given: Given) -> None:
    capabilities = b"\x01\x00\x00\x02" + b"\xff" * 4 + bytes(12)
    os.setxattr(given["file"], "security.capability", capabilities)


@escape("makes a file immutable", root=True)
def immutable(given: Given) -> None:
    there = os.open(given["file"], os.O_RDONLY)
    flags = int.from_bytes(fcntl.ioctl(there, _GET_FLAGS, bytes(8)), "little")
    fcntl.ioctl(there, _SET_FLAGS, (flags | 0x10).to_bytes(8, "little"))


@escape("keeps a file out of dumps by its flags")
def no_dump(given: Given) -> None:
    there = os.open(given["file"], os.O_RDONLY)
    flags = int.from_bytes(fcntl.ioctl(there, _GET_FLAGS, bytes(8)), "little")
    fcntl.ioctl(there, _SET_FLAGS, (flags | 0x40 | 0x80).to_bytes(8, "little"))


@escape("changes a file's flags by the other call for them")
def extended_flags(given: Given) -> None:
    there = os.open(given["file"], os.O_RDONLY)
    now = bytearray(fcntl.ioctl(there, _GET_XFLAGS, bytes(28)))
    now[0] |= 0x80 | 0x40
    fcntl.ioctl(there, _SET_XFLAGS, bytes(now))


@escape("changes the mode of an inherited descriptor's file", "inherited file")
def chmod_inherited(given: Given) -> None:
    for each in given["inherited"]:
        try:
            library("fchmod", each, 0o666)
        except OSError:
            continue
