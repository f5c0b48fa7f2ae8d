"""Other processes of the user: not ended, not read, not changed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import time

from escape import Given, escape
from kernel import library, system_call


@escape("ends a process of the user's", "process")
def kill(given: Given) -> None:
    os.kill(given["process"], signal.SIGKILL)


@escape("ends a group of processes of the user's", "process")
def kill_group(given: Given) -> None:
    os.killpg(given["process"], signal.SIGKILL)


@escape("stops a process of the user's", "process")
def stop(given: Given) -> None:
    os.kill(given["process"], signal.SIGSTOP)


@escape("ends a process by tgkill", "process")
def tgkill(given: Given) -> None:
    library("tgkill", given["process"], given["process"], 9)


@escape("ends a process by sigqueue", "process")
def sigqueue(given: Given) -> None:
    library("sigqueue", given["process"], 9, 0)


@escape("ends a process by its descriptor", "process")
def pidfd_kill(given: Given) -> None:
    there = system_call("pidfd_open", given["process"], 0)
    system_call("pidfd_send_signal", there, 9, None, 0)


@escape("lets the kernel signal a process when a pipe is readable", "process")
def signal_by_pipe(given: Given) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, given["process"])
    fcntl.fcntl(reading, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writing, b"x")
    time.sleep(0.1)


def _poke(given: Given) -> None:
    os.waitpid(given["process"], 0x40000000)
    at = ctypes.c_void_p(given["address"])
    system_call("ptrace", 5, given["process"], at, ctypes.c_long(0x6C697665))
    system_call("ptrace", 17, given["process"], None, None)


@escape("attaches to a process as its debugger and writes its memory", "process")
def ptrace(given: Given) -> None:
    system_call("ptrace", 16, given["process"], None, None)
    _poke(given)


@escape("attaches to a process without stopping it and writes its memory", "process")
def ptrace_seize(given: Given) -> None:
    system_call("ptrace", 0x4206, given["process"], None, None)
    system_call("ptrace", 0x4207, given["process"], None, None)
    _poke(given)


@escape("writes the memory of a process", "process")
def process_vm_writev(given: Given) -> None:
    mine = ctypes.create_string_buffer(b"evil")
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(mine), 4)
    remote = (ctypes.c_uint64 * 2)(given["address"], 4)
    system_call("process_vm_writev", given["process"], local, 1, remote, 1, 0)


@escape("writes the memory of a process by /proc", "process")
def proc_mem(given: Given) -> None:
    os.pwrite(os.open(f"/proc/{given['process']}/mem", os.O_RDWR), b"evil", given["address"])


@escape("reads the memory of a process", "secret")
def process_vm_readv(given: Given) -> None:
    mine = ctypes.create_string_buffer(200)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(mine), 200)
    remote = (ctypes.c_uint64 * 2)(given["address"], 200)
    system_call("process_vm_readv", given["process"], local, 1, remote, 1, 0)
    _leak(given, mine.raw)


@escape("reads the memory of a process by /proc", "secret")
def read_proc_mem(given: Given) -> None:
    _leak(given, os.pread(os.open(f"/proc/{given['process']}/mem", 0), 200, given["address"]))


@escape("reads the environment of a process", "secret")
def environ(given: Given) -> None:
    with open(f"/proc/{given['process']}/environ", "rb") as file:
        _leak(given, file.read())


@escape("reads the environment of every process that it finds", "secret")
def environ_of_all(given: Given) -> None:
    for each in os.listdir("/proc"):
        try:
            with open(f"/proc/{each}/environ", "rb") as file:
                _leak(given, file.read())
        except OSError:
            continue


@escape("reads the environment of who has started it", "starter's secret")
def environ_of_parent(given: Given) -> None:
    process = os.getpid()
    while process > 1:
        with open(f"/proc/{process}/stat") as file:
            process = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{process}/environ", "rb") as file:
            _leak(given, file.read())


@escape("reads the environment that it was given", "starter's secret", control=False)
def own_environ(given: Given) -> None:
    with open("/proc/self/environ", "rb") as file:
        _leak(given, file.read())


@escape("reads the command line of a process", "secret")
def command_line(given: Given) -> None:
    with open(f"/proc/{given['process']}/cmdline", "rb") as file:
        _leak(given, file.read())


def _leak(given: Given, what: bytes) -> None:
    with open(f"{given['writable']}/{given['leak']}", "ab") as file:
        file.write(what)


@escape("makes a process slower", "process")
def setpriority(given: Given) -> None:
    os.setpriority(os.PRIO_PROCESS, given["process"], 17)


@escape("makes all processes of the user slower", "process", control=False)
def setpriority_of_user(given: Given) -> None:
    os.setpriority(os.PRIO_PGRP, given["process"], 17)


@escape("keeps a process to one processor", "process")
def affinity(given: Given) -> None:
    os.sched_setaffinity(given["process"], {0})


@escape("changes how a process is scheduled", "process")
def scheduler(given: Given) -> None:
    os.sched_setscheduler(given["process"], os.SCHED_IDLE, os.sched_param(0))


@escape("changes how a process is scheduled by the newer call", "process")
def scheduler_attributes(given: Given) -> None:
    attributes = (48).to_bytes(4, "little") + (5).to_bytes(4, "little") + bytes(40)
    system_call("sched_setattr", given["process"], attributes, 0)


@escape("makes a process wait for its disk", "process")
def ioprio(given: Given) -> None:
    system_call("ioprio_set", 1, given["process"], (3 << 13) | 7)


@escape("lowers a process's limits", "process")
def prlimit(given: Given) -> None:
    resource.prlimit(given["process"], resource.RLIMIT_NOFILE, (5, 5))


@escape("lets a process be the first that is killed where memory ends", "process")
def oom_score(given: Given) -> None:
    with open(f"/proc/{given['process']}/oom_score_adj", "w") as file:
        file.write("777")


@escape("moves a process to another group", "process", control=False)
def setpgid(given: Given) -> None:
    os.setpgid(given["process"], 0)
