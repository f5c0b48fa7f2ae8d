"""Victims that belong to the whole machine: what processes share, devices, settings, memory."""

from __future__ import annotations

import ctypes
import os
import pathlib
import random
import socket
import subprocess
import uuid

from kernel import LIBC, library, system_call
from listeners import (
    Abstract,
    Datagrams,
    InheritedSocket,
    Listener,
    UnixDatagrams,
    UnixSocket,
)
from victims import (
    Call,
    Folder,
    InheritedFile,
    InheritedFolder,
    InheritedMemory,
    InheritedProcess,
    Process,
    Secret,
    StartersSecret,
    Victim,
)
from views import Held, InheritedTerminal, Terminal


class SystemV(Victim):
    """A segment, a queue and a semaphore of one key."""

    def make(self) -> None:
        key = self.facts["key"] = random.randrange(1, 2**31)
        self.segment = library("shmget", key, 4096, 0o1666)
        self.there = LIBC.shmat(self.segment, None, 0)
        ctypes.memmove(self.there, b"precious", 8)
        self.queue = library("msgget", key, 0o1666)
        library("msgsnd", self.queue, b"\1" + bytes(7) + b"precious", 8, 0)
        self.semaphore = library("semget", key, 1, 0o1666)
        library("semctl", self.semaphore, 0, 16, 5)
        self.facts["segment"] = self.segment
        if self.owner:  # else they would be another user's
            self.give()

    def give(self) -> None:
        # The kernel's ipc64_perm begins with key, uid, gid of four bytes each; uid and gid are set.
        for call, number, set_at in (
            ("shmctl", self.segment, 1),
            ("msgctl", self.queue, 1),
        ):
            state = ctypes.create_string_buffer(256)
            library(call, number, 2, state)
            ctypes.memmove(ctypes.addressof(state) + 4, self.owner.to_bytes(4, "little"), 4)
            library(call, number, set_at, state)
        state = ctypes.create_string_buffer(256)
        library("semctl", self.semaphore, 0, 2, state)
        ctypes.memmove(ctypes.addressof(state) + 4, self.owner.to_bytes(4, "little"), 4)
        library("semctl", self.semaphore, 0, 1, state)

    def harm(self) -> str:
        if ctypes.string_at(self.there, 8) != b"precious":
            return "the segment was changed"
        try:
            if library("shmget", self.facts["key"], 0, 0) != self.segment:
                return "the segment is another"
            if library("semctl", self.semaphore, 0, 12) != 5:
                return "the semaphore was changed"
            taken = ctypes.create_string_buffer(64)
            library("msgrcv", self.queue, taken, 8, 0, 0o4000)
        except OSError as error:
            return f"segment, semaphore or message is gone ({error})"
        return ""

    def close(self) -> None:
        LIBC.shmdt(ctypes.c_void_p(self.there))
        LIBC.shmctl(self.segment, 0, None)
        LIBC.msgctl(self.queue, 0, None)
        LIBC.semctl(self.semaphore, 0, 0)


class LeftSystemV(Victim):
    def make(self) -> None:
        self.facts["key"] = random.randrange(1, 2**31)

    def left(self) -> dict[str, int]:
        key = self.facts["key"]
        found = {
            "shmctl": LIBC.shmget(key, 0, 0),
            "msgctl": LIBC.msgget(key, 0),
            "semctl": LIBC.semget(key, 0, 0),
        }
        return {each: number for each, number in found.items() if number >= 0}

    def harm(self) -> str:
        return f"left: {', '.join(self.left())}" if self.left() else ""

    def close(self) -> None:
        for each, number in self.left().items():
            getattr(LIBC, each)(number, 0, 0)


class LeftPosixQueue(Victim):
    def make(self) -> None:
        self.facts["queue"] = self.mark

    def open(self) -> int:
        return system_call("mq_open", self.mark, os.O_RDWR | os.O_NONBLOCK, 0, None)

    def harm(self) -> str:
        try:
            os.close(self.open())
        except OSError:
            return ""
        return "the queue was left"

    def close(self) -> None:
        try:
            system_call("mq_unlink", self.mark)
        except OSError:
            pass


class PosixQueue(LeftPosixQueue):
    def make(self) -> None:
        super().make()
        before = os.umask(0)
        self.there = system_call("mq_open", self.mark, os.O_CREAT | os.O_RDWR, 0o666, None)
        os.umask(before)
        os.fchown(self.there, self.owner, self.owner)

    def harm(self) -> str:
        attributes = (ctypes.c_long * 8)()
        library("mq_getattr", self.there, attributes)
        if attributes[3]:
            return "a message lies in it"
        return "" if super().harm() else "it is gone"

    def close(self) -> None:
        os.close(self.there)
        super().close()


class LeftTemporary(Victim):
    folder = "/tmp"

    def make(self) -> None:
        self.facts["left"] = f"/tmp/{self.mark}"

    def found(self) -> list[pathlib.Path]:
        return list(pathlib.Path(self.folder).glob(f"{self.mark}*"))

    def harm(self) -> str:
        return f"left: {len(self.found())} files" if self.found() else ""

    def close(self) -> None:
        for each in self.found():
            each.unlink()


class LeftSharedMemory(LeftTemporary):
    folder = "/dev/shm"

    def make(self) -> None:
        self.facts["left"] = self.mark


class SharedMemory(LeftSharedMemory):
    def make(self) -> None:
        super().make()
        self.path = pathlib.Path(f"/dev/shm/psm_{self.mark}")
        self.path.write_text("precious")
        os.chown(self.path, self.owner, self.owner)
        self.facts["shared"] = str(self.path)

    def harm(self) -> str:
        now = self.path.read_text() if self.path.exists() else "gone"
        return f"it is {now!r}" if now != "precious" else super().harm()

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        super().close()


class Keyring(Victim):
    def found(self) -> bool:
        return self.mark in pathlib.Path("/proc/keys").read_text() or self.in_users_keyring()

    def in_users_keyring(self) -> bool:
        """A process of the same user looks: it sees the same keyrings as what ran."""
        number = "250" if os.uname().machine == "x86_64" else "219"
        look = (
            "import ctypes, sys; l = ctypes.CDLL(None); c = ctypes.c_long\n"
            f"found = [l.syscall(c({number}), c(10), c(ring), b'user', sys.argv[1].encode(), c(0))"
            " for ring in (-3, -4, -5)]\nsys.exit(max(found) > 0)"
        )
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-S", "-c", look, self.mark],
            user=self.owner,
            group=self.owner,
            extra_groups=[],
            check=False,
        )
        return done.returncode != 0

    def harm(self) -> str:
        return "the key is there" if self.found() else ""


class Disk(Victim):
    """A loop device over a file."""

    def make(self) -> None:
        self.file = self.at.with_suffix(".disk")
        self.file.write_bytes(b"precious" * 64 * 1024)
        made = subprocess.run(
            ["losetup", "-f", "--show", self.file], capture_output=True, text=True, check=False
        )
        self.device = made.stdout.strip()
        number = os.stat(self.device).st_rdev if self.device else 0
        self.facts |= {"disk": self.device, "device": [os.major(number), os.minor(number)]}

    def harm(self) -> str:
        if self.device:
            subprocess.run(["blockdev", "--flushbufs", self.device], check=False)
        return (
            "" if self.file.read_bytes().startswith(b"precious") else "its first bytes are others"
        )

    def close(self) -> None:
        if self.device:
            subprocess.run(["losetup", "-d", self.device], check=False)


class KernelLog(Victim):
    def harm(self) -> str:
        there = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                if self.mark.encode() in os.read(there, 8192):
                    return "the line is in it"
        except BlockingIOError:
            return ""
        finally:
            os.close(there)


class Setting(Victim):
    path = pathlib.Path("/proc/sys/vm/stat_interval")

    def make(self) -> None:
        self.before = self.path.read_text()
        self.facts |= {"setting": str(self.path), "other": str(random.randrange(1000, 9999))}

    def harm(self) -> str:
        now = self.path.read_text().strip()  # others' trials have others
        return "it was set" if now == self.facts["other"] else ""

    def close(self) -> None:
        if self.harm():
            self.path.write_text(self.before)


class HostName(Victim):
    def make(self) -> None:
        self.before = socket.gethostname()

    def harm(self) -> str:
        return "it is another" if socket.gethostname() == self.mark else ""

    def close(self) -> None:
        if self.harm():
            socket.sethostname(self.before)


class Clock(Victim):
    def make(self) -> None:
        self.before = self.estimated_error()
        self.facts["other"] = random.randrange(10_000, 20_000)

    @staticmethod
    def estimated_error() -> int:
        state = (ctypes.c_int64 * 26)()
        system_call("adjtimex", state)
        return state[4]

    def harm(self) -> str:
        return "it was set" if self.estimated_error() == self.facts["other"] else ""


class Memory(Victim):
    """Of the machine, as it is while the code runs; confined.py looks at it all the time."""

    allowed = 200 << 20
    slack = 150 << 20  # it is looked at every so often; other programs take and give some as well

    def make(self) -> None:
        self.facts |= {"bytes": 3 * self.allowed, "left": f"memory-{uuid.uuid4().hex}"}
        self.facts["key"] = random.randrange(1, 2**31 - 1000)
        self.shared = self.shared_now()
        self.most = 0

    @staticmethod
    def shared_now() -> int:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        return next(int(each.split()[1]) << 10 for each in lines if each.startswith("Shmem:"))

    def look(self, processes: list[int]) -> None:
        own = 0
        for each in processes:
            try:
                text = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text()
            except OSError:
                continue
            own += sum(
                int(line.split()[1]) << 10
                for line in text.splitlines()
                if line.startswith("Pss_Anon:")
            )
        self.most = max(self.most, own + max(0, self.shared_now() - self.shared))

    def harm(self) -> str:
        if self.most > self.allowed + self.slack:
            return f"it had {self.most >> 20} MB"
        if (left := self.shared_now() - self.shared) > self.slack:
            return f"{left >> 20} MB were left"
        return ""

    def close(self) -> None:
        for each in pathlib.Path("/dev/shm").glob(self.facts["left"] + "*"):
            each.unlink()
        for at in range(1000):
            if (left := LIBC.shmget(self.facts["key"] + at, 0, 0)) >= 0:
                LIBC.shmctl(left, 0, None)


KINDS: dict[str, type[Victim]] = {
    "folder": Folder,
    "inherited file": InheritedFile,
    "inherited folder": InheritedFolder,
    "inherited memory": InheritedMemory,
    "inherited process": InheritedProcess,
    "inherited socket": InheritedSocket,
    "inherited terminal": InheritedTerminal,
    "process": Process,
    "secret": Secret,
    "starter's secret": StartersSecret,
    "call": Call,
    "terminal": Terminal,
    "held": Held,
    "tcp": Listener,
    "udp": Datagrams,
    "unix socket": UnixSocket,
    "unix datagrams": UnixDatagrams,
    "abstract socket": Abstract,
    "system v": SystemV,
    "left system v": LeftSystemV,
    "posix queue": PosixQueue,
    "left posix queue": LeftPosixQueue,
    "shared memory": SharedMemory,
    "left shared memory": LeftSharedMemory,
    "left temporary file": LeftTemporary,
    "keyring": Keyring,
    "disk": Disk,
    "kernel log": KernelLog,
    "setting": Setting,
    "host name": HostName,
    "clock": Clock,
    "memory": Memory,
}
