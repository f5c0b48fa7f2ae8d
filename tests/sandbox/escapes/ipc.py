"""What processes share besides files: memory, queues, semaphores, keys."""

from __future__ import annotations

import ctypes
import os
import socket

from escape import Given, escape
from kernel import LIBC, checked, library, system_call

_CREATE, _EXCLUSIVE, _REMOVE, _SET_VALUE = 0o1000, 0o2000, 0, 16


@escape("overwrites a System V segment of another process", "system v")
def write_segment(given: Given) -> None:
    there = checked(LIBC.shmat(library("shmget", given["key"], 0, 0), None, 0))
    ctypes.memmove(there, b"evil", 4)


@escape("removes a System V segment of another process", "system v")
def remove_segment(given: Given) -> None:
    library("shmctl", library("shmget", given["key"], 0, 0), _REMOVE, None)


@escape("attaches to System V segments by their numbers", "system v")
def guess_segment(given: Given) -> None:
    there = checked(LIBC.shmat(given["segment"], None, 0))
    ctypes.memmove(there, b"evil", 4)


@escape("takes a message out of a System V queue", "system v")
def steal_message(given: Given) -> None:
    taken = ctypes.create_string_buffer(256)
    library("msgrcv", library("msgget", given["key"], 0), taken, 100, 0, 0o4000)


@escape("removes a System V queue", "system v")
def remove_queue(given: Given) -> None:
    library("msgctl", library("msgget", given["key"], 0), _REMOVE, None)


@escape("changes a System V semaphore", "system v")
def set_semaphore(given: Given) -> None:
    library("semctl", library("semget", given["key"], 0, 0), 0, _SET_VALUE, 77)


@escape("removes a System V semaphore", "system v")
def remove_semaphore(given: Given) -> None:
    library("semctl", library("semget", given["key"], 0, 0), 0, _REMOVE)


@escape("leaves a System V segment behind", "left system v")
def leave_segment(given: Given) -> None:
    library("shmget", given["key"], 4096, _CREATE | _EXCLUSIVE | 0o600)


@escape("leaves a System V queue and a semaphore behind", "left system v")
def leave_queue(given: Given) -> None:
    try:
        library("msgget", given["key"], _CREATE | _EXCLUSIVE | 0o600)
    finally:
        library("semget", given["key"], 1, _CREATE | _EXCLUSIVE | 0o600)


@escape("puts a message into a POSIX queue of another process", "posix queue")
def send_to_queue(given: Given) -> None:
    there = system_call("mq_open", given["queue"], os.O_WRONLY, 0, None)
    system_call("mq_timedsend", there, "evil", 4, 0, None)


@escape("removes a POSIX queue of another process", "posix queue")
def unlink_queue(given: Given) -> None:
    system_call("mq_unlink", given["queue"])


@escape("leaves a POSIX queue behind", "left posix queue")
def leave_posix_queue(given: Given) -> None:
    system_call("mq_open", given["queue"], os.O_CREAT | os.O_WRONLY, 0o600, None)


@escape("overwrites shared memory of another process", "shared memory")
def write_shared(given: Given) -> None:
    with open(given["shared"], "r+b") as file:
        file.write(b"evil")


@escape("removes shared memory of another process", "shared memory")
def unlink_shared(given: Given) -> None:
    os.unlink(given["shared"])


@escape("moves its own over shared memory of another process", "shared memory")
def swap_shared(given: Given) -> None:
    mine = "/dev/shm/" + given["left"]
    with open(mine, "w") as file:
        file.write("evil")
    os.rename(mine, given["shared"])


@escape("leaves shared memory behind", "left shared memory")
def leave_shared(given: Given) -> None:
    with open("/dev/shm/" + given["left"], "w") as file:
        file.write("evil")


@escape("leaves a file in the folder of temporary files", "left temporary file")
def leave_temporary(given: Given) -> None:
    with open(given["left"], "w") as file:
        file.write("evil")


@escape("leaves a key in the user's keyring", "keyring")
def leave_key(given: Given) -> None:
    system_call("add_key", "user", given["mark"], "evil", 4, -4)


@escape("makes a keyring of its own", "keyring")
def new_keyring(given: Given) -> None:
    system_call("keyctl", 1, given["mark"])  # joins a new session's
    system_call("add_key", "user", given["mark"], "evil", 4, -4)


@escape("sends to a socket that has a name but no file", "abstract socket")
def abstract_socket(given: Given) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.connect("\0" + given["abstract"])
        there.send(given["mark"].encode())
