"""The user's files: nothing outside of the writable folder is written, made, moved or removed."""

from __future__ import annotations

import os

from escape import Given, escape


@escape("overwrites a file of the user's")
def write(given: Given) -> None:
    with open(given["file"], "w") as file:
        file.write("evil")


@escape("appends to a file of the user's")
def append(given: Given) -> None:
    with open(given["file"], "a") as file:
        file.write("evil")


@escape("writes in the middle of a file of the user's")
def write_at(given: Given) -> None:
    os.pwrite(os.open(given["file"], os.O_RDWR), b"evil", 2)


@escape("maps a file of the user's for writing")
def write_mapped(given: Given) -> None:
    import mmap

    with open(given["file"], "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:4] = b"evil"


@escape("truncates a file of the user's by its path")
def truncate(given: Given) -> None:
    os.truncate(given["file"], 0)


@escape("truncates a file of the user's by opening it for reading")
def truncate_on_open(given: Given) -> None:
    os.open(given["file"], os.O_RDONLY | os.O_TRUNC)


@escape("punches a hole into a file of the user's")
def punch(given: Given) -> None:
    from kernel import library

    library("fallocate", os.open(given["file"], os.O_RDWR), 3, 0, 8)


@escape("moves a file of its own over one of the user's")
def rename_over(given: Given) -> None:
    mine = given["writable"] + "/mine"
    with open(mine, "w") as file:
        file.write("evil")
    os.rename(mine, given["file"])


@escape("moves a file of the user's into its own folder")
def rename_away(given: Given) -> None:
    os.rename(given["file"], given["writable"] + "/taken")


@escape("swaps a file of the user's with its own")
def rename_exchange(given: Given) -> None:
    from kernel import library

    mine = given["writable"] + "/exchanged"
    with open(mine, "w") as file:
        file.write("evil")
    library("renameat2", -100, mine, -100, given["file"], 2)


@escape("renames within a folder of the user's")
def rename_within(given: Given) -> None:
    os.rename(given["file"], given["folder"] + "/renamed")


@escape("removes a file of the user's")
def unlink(given: Given) -> None:
    os.unlink(given["file"])


@escape("removes a folder of the user's")
def rmdir(given: Given) -> None:
    os.rmdir(given["folder"] + "/sub/empty")


@escape("makes a file in a folder of the user's")
def create(given: Given) -> None:
    os.close(os.open(given["folder"] + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@escape("makes a file without a name in a folder of the user's and names it")
def create_nameless(given: Given) -> None:
    from kernel import library

    made = os.open(given["folder"], os.O_TMPFILE | os.O_WRONLY)
    library("linkat", -100, f"/proc/self/fd/{made}", -100, given["folder"] + "/named", 0x400)


@escape("makes a folder in a folder of the user's")
def mkdir(given: Given) -> None:
    os.mkdir(given["folder"] + "/made")


@escape("links its own file into a folder of the user's")
def link_out(given: Given) -> None:
    mine = given["writable"] + "/linked"
    with open(mine, "w") as file:
        file.write("evil")
    os.link(mine, given["folder"] + "/linked")


@escape("links a file of the user's into its own folder and writes to that")
def link_in(given: Given) -> None:
    mine = given["writable"] + "/link_in"
    os.link(given["file"], mine)
    with open(mine, "w") as file:
        file.write("evil")


@escape("makes a symbolic link in a folder of the user's")
def symlink_out(given: Given) -> None:
    os.symlink("/etc/passwd", given["folder"] + "/symlink")


@escape("writes through a symbolic link that lies in its own folder")
def symlink_in(given: Given) -> None:
    mine = given["writable"] + "/symlink_in"
    os.symlink(given["file"], mine)
    with open(mine, "w") as file:
        file.write("evil")


@escape("makes a pipe in a folder of the user's")
def mkfifo(given: Given) -> None:
    os.mkfifo(given["folder"] + "/pipe")


@escape("makes a socket in a folder of the user's")
def bind(given: Given) -> None:
    import socket

    socket.socket(socket.AF_UNIX).bind(given["folder"] + "/socket")


@escape("writes through /proc/self/root")
def through_own_root(given: Given) -> None:
    with open("/proc/self/root" + given["file"], "w") as file:
        file.write("evil")


@escape("writes through /proc/PID/root of its parent")
def through_parents_root(given: Given) -> None:
    with open(f"/proc/{os.getppid()}/root{given['file']}", "w") as file:
        file.write("evil")


@escape("writes through ..", "folder")
def through_dots(given: Given) -> None:
    with open(given["writable"] + "/../.." * 4 + "/.." * 9 + given["file"], "w") as file:
        file.write("evil")


@escape("opens a descriptor that was opened for reading again, for writing")
def reopen(given: Given) -> None:
    reading = os.open(given["file"], os.O_RDONLY)
    os.write(os.open(f"/proc/self/fd/{reading}", os.O_WRONLY | os.O_TRUNC), b"evil")


@escape("opens a descriptor that is only a path again, for writing")
def reopen_path(given: Given) -> None:
    path = os.open(given["file"], os.O_PATH)
    os.write(os.open(f"/proc/self/fd/{path}", os.O_WRONLY), b"evil")


@escape("moves a file by descriptors of folders")
def rename_by_descriptor(given: Given) -> None:
    there = os.open(given["folder"], os.O_RDONLY)
    os.rename("file", "elsewhere", src_dir_fd=there, dst_dir_fd=there)


@escape("writes a file by copy_file_range and sendfile")
def copy_into(given: Given) -> None:
    with open(given["writable"] + "/source", "w+b") as source:
        source.write(b"evil")
        source.flush()
        target = os.open(given["file"], os.O_WRONLY)
        os.sendfile(target, source.fileno(), 0, 4)


@escape("clones its own file over one of the user's", control=False)
def clone_over(given: Given) -> None:
    import fcntl

    with open(given["writable"] + "/reflink", "w+b") as source:
        source.write(b"evil")
        source.flush()
        fcntl.ioctl(os.open(given["file"], os.O_RDONLY), 0x40049409, source.fileno())


@escape("opens a file by its handle, for writing", root=True)
def open_by_handle(given: Given) -> None:
    import ctypes

    from kernel import system_call

    handle = ctypes.create_string_buffer(136)
    ctypes.memmove(handle, (128).to_bytes(4, "little"), 4)
    number = ctypes.c_int()
    system_call("name_to_handle_at", -100, given["file"], handle, ctypes.byref(number), 0)
    folder = os.open(given["folder"], os.O_RDONLY)
    os.write(system_call("open_by_handle_at", folder, handle, os.O_WRONLY), b"evil")
