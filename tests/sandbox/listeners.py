"""Those who wait to be reached: over the network, by sockets of this machine or inherited ones."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

from victims import Victim


class Listener(Victim):
    family, kind = socket.AF_INET, socket.SOCK_STREAM

    def make(self) -> None:
        self.socket = socket.socket(self.family, self.kind)
        self.socket.bind(self.address())
        if self.kind == socket.SOCK_STREAM:
            self.socket.listen()
        self.more()

    def address(self) -> Any:
        return ("127.0.0.1", 0)

    def more(self) -> None:
        self.facts |= {"port": self.socket.getsockname()[1]}

    def harm(self) -> str:
        if not select.select([self.socket], [], [], 0)[0]:
            return ""
        return "it was reached"

    def close(self) -> None:
        self.socket.close()


class Datagrams(Listener):
    kind = socket.SOCK_DGRAM


class UnixSocket(Listener):
    family = socket.AF_UNIX

    def address(self) -> Any:
        self.at.mkdir()
        return str(self.at / "socket")

    def more(self) -> None:
        os.chmod(self.at, 0o755)
        os.chown(self.at / "socket", self.owner, self.owner)
        self.facts |= {"path": str(self.at / "socket")}


class UnixDatagrams(UnixSocket):
    kind = socket.SOCK_DGRAM


class Abstract(Listener):
    family = socket.AF_UNIX

    def address(self) -> Any:
        return "\0" + self.mark

    def more(self) -> None:
        self.facts |= {"abstract": self.mark}


class InheritedSocket(Victim):
    def make(self) -> None:
        self.here, self.there = socket.socketpair()
        self.inherited = (self.there.fileno(),)

    def harm(self) -> str:
        return "it was reached" if select.select([self.here], [], [], 0)[0] else ""

    def close(self) -> None:
        self.here.close()
        self.there.close()
