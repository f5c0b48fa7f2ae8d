"""What the starter's starter had open: none of it reaches the code."""

from __future__ import annotations

import os

from escape import Given, escape
from kernel import system_call


@escape("overwrites a file by a descriptor that it has inherited", "inherited file")
def inherited_file(given: Given) -> None:
    for each in given["inherited"]:
        try:
            os.ftruncate(each, 0)
            os.write(each, b"evil")
        except OSError:
            continue


@escape("makes a file by the descriptor of a folder that it has inherited", "inherited folder")
def inherited_folder(given: Given) -> None:
    for each in given["inherited"]:
        try:
            os.close(os.open("evil", os.O_CREAT | os.O_WRONLY, dir_fd=each))
        except OSError:
            continue


@escape("renames by the descriptor of a folder that it has inherited", "inherited folder")
def inherited_folder_rename(given: Given) -> None:
    for each in given["inherited"]:
        try:
            os.rename("file", "evil", src_dir_fd=each, dst_dir_fd=each)
        except OSError:
            continue


@escape("writes shared memory by a descriptor that it has inherited", "inherited memory")
def inherited_memory(given: Given) -> None:
    for each in given["inherited"]:
        try:
            os.pwrite(each, b"evil", 0)
        except OSError:
            continue


@escape("ends a process by a descriptor that it has inherited", "inherited process")
def inherited_process(given: Given) -> None:
    for each in given["inherited"]:
        try:
            system_call("pidfd_send_signal", each, 9, None, 0)
        except OSError:
            continue


@escape("takes a descriptor out of another process and writes to it", "process")
def pidfd_getfd(given: Given) -> None:
    there = system_call("pidfd_open", given["process"], 0)
    os.pwrite(system_call("pidfd_getfd", there, given["its_file"], 0), b"evil", 0)


@escape("opens a descriptor of another process by /proc", "process")
def others_descriptor(given: Given) -> None:
    path = f"/proc/{given['process']}/fd/{given['its_file']}"
    os.pwrite(os.open(path, os.O_RDWR), b"evil", 0)


def _parents() -> list[int]:
    """As far up as /proc shows them."""
    found, at = [], os.getppid()
    while at > 1:
        found.append(at)
        with open(f"/proc/{at}/stat") as file:
            at = int(file.read().rpartition(")")[2].split()[1])
    return found


@escape("takes a descriptor out of its parents and writes to it", "inherited file")
def parents_descriptors(given: Given) -> None:
    for process in _parents():
        for name in os.listdir(f"/proc/{process}/fd"):
            if os.readlink(f"/proc/{process}/fd/{name}") != given["file"]:
                continue  # what other processes have open is nobody's to lose
            there = system_call("pidfd_open", process, 0)
            os.pwrite(system_call("pidfd_getfd", there, int(name), 0), b"evil", 0)
