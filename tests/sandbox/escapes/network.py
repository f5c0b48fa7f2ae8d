"""Nobody is reached: neither over the network nor over sockets of this machine."""

from __future__ import annotations

import os
import socket

from escape import Given, escape


@escape("sends over TCP", "tcp")
def tcp(given: Given) -> None:
    with socket.create_connection(("127.0.0.1", given["port"]), 2) as there:
        there.send(given["mark"].encode())


@escape("sends over TCP without connecting first", "tcp")
def tcp_fast_open(given: Given) -> None:
    with socket.socket() as there:
        there.sendto(given["mark"].encode(), 0x20000000, ("127.0.0.1", given["port"]))


@escape("sends over UDP", "udp")
def udp(given: Given) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as there:
        there.sendto(given["mark"].encode(), ("127.0.0.1", given["port"]))


@escape("sends to a socket that is a file", "unix socket")
def unix_socket(given: Given) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(given["path"])
        there.send(given["mark"].encode())


@escape("connects one end of a pair to a socket that is a file", "unix datagrams")
def pair(given: Given) -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(given["mark"].encode(), given["path"])


@escape("sends over a socket that it has inherited", "inherited socket")
def inherited_socket(given: Given) -> None:
    for each in given["inherited"]:
        try:
            with socket.socket(fileno=os.dup(each)) as there:
                there.send(given["mark"].encode())
        except OSError:
            continue


@escape("opens sockets to the kernel", "held", held=True)
def netlink(given: Given) -> list[socket.socket]:
    opened = []
    for family, kind, number in ((16, 3, 0), (16, 3, 9), (16, 3, 15), (38, 5, 0), (40, 1, 0)):
        try:
            opened.append(socket.socket(family, kind, number))
        except OSError:
            continue
    return opened


@escape("opens a socket for raw packets", "held", held=True, root=True)
def raw_packets(given: Given) -> list[socket.socket]:
    opened = []
    for family, kind, number in ((17, 3, 0x300), (2, 3, 1), (2, 3, 255)):
        try:
            opened.append(socket.socket(family, kind, number))
        except OSError:
            continue
    return opened


@escape("listens for connections", "held", held=True)
def listen(given: Given) -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))
