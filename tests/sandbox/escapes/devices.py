"""Terminals, disks, the kernel's log and settings."""

from __future__ import annotations

import fcntl
import os
import stat

from escape import Given, escape

_TIOCSTI, _TIOCLINUX, _TIOCSCTTY = 0x5412, 0x541C, 0x540E


@escape("writes to another terminal of the user's", "terminal")
def write_to_terminal(given: Given) -> None:
    os.write(os.open(given["terminal"], os.O_WRONLY | os.O_NOCTTY), b"\x1b]0;owned\x07password: ")


@escape("types into another terminal of the user's", "terminal", root=True)
def type_into_terminal(given: Given) -> None:
    there = os.open(given["terminal"], os.O_RDWR | os.O_NOCTTY)
    for each in b"rm -rf ~\n":
        fcntl.ioctl(there, _TIOCSTI, bytes([each]))


@escape("takes a terminal as its own and types into it", "terminal")
def take_terminal(given: Given) -> None:
    os.setsid()
    there = os.open(given["terminal"], os.O_RDWR)
    fcntl.ioctl(there, _TIOCSCTTY, 0)
    for each in b"rm -rf ~\n":
        fcntl.ioctl(there, _TIOCSTI, bytes([each]))


@escape("changes the settings of a terminal", "terminal")
def terminal_settings(given: Given) -> None:
    import termios

    there = os.open(given["terminal"], os.O_RDONLY | os.O_NOCTTY)
    now = termios.tcgetattr(there)
    now[3] ^= termios.ECHO
    now[4] = now[5] = termios.B50
    termios.tcsetattr(there, termios.TCSANOW, now)


@escape("changes the size of a terminal", "terminal")
def terminal_size(given: Given) -> None:
    import termios

    there = os.open(given["terminal"], os.O_RDONLY | os.O_NOCTTY)
    fcntl.ioctl(there, termios.TIOCSWINSZ, b"\x07\x00\x07\x00" + bytes(4))


@escape("writes to a terminal that it has inherited", "inherited terminal")
def inherited_terminal(given: Given) -> None:
    for each in given["inherited"]:
        try:
            if os.isatty(each):
                os.write(each, b"password: ")
        except OSError:
            continue


@escape("writes to a disk", "disk", root=True)
def write_to_disk(given: Given) -> None:
    there = os.open(given["disk"], os.O_RDWR)
    os.pwrite(there, b"evil" * 128, 0)
    os.fsync(there)


@escape("makes a device file of its own for a disk and writes to that", "disk", root=True)
def make_disk(given: Given) -> None:
    mine = given["writable"] + "/disk"
    os.mknod(mine, stat.S_IFBLK | 0o600, os.makedev(*given["device"]))
    there = os.open(mine, os.O_RDWR)
    os.pwrite(there, b"evil" * 128, 0)
    os.fsync(there)


@escape("writes to the kernel's log", "kernel log", root=True)
def kernel_log(given: Given) -> None:
    os.write(os.open("/dev/kmsg", os.O_WRONLY), f"{given['mark']}\n".encode())


@escape("makes a device file for the kernel's log", "kernel log", root=True)
def make_kernel_log(given: Given) -> None:
    mine = given["writable"] + "/kmsg"
    os.mknod(mine, stat.S_IFCHR | 0o600, os.makedev(1, 11))
    os.write(os.open(mine, os.O_WRONLY), f"{given['mark']}\n".encode())


@escape("changes a setting of the kernel", "setting", root=True, control=False)
def kernel_setting(given: Given) -> None:
    with open(given["setting"], "w") as file:
        file.write(given["other"])


@escape("opens the controls of loop devices", "held", held=True, root=True)
def open_loop_control(given: Given) -> list[int]:
    return [os.open("/dev/loop-control", os.O_RDWR)]


@escape("opens the machine's memory, its virtual machines, its file systems' devices", "held",
        held=True)  # fmt: skip
def open_dangerous(given: Given) -> list[int]:
    opened = []
    for name in ("mem", "port", "kvm", "fuse", "net/tun", "vhost-net", "uinput", "hwrng", "tty0"):
        try:
            opened.append(os.open("/dev/" + name, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            continue
    return opened


@escape("gets a terminal of its own in the user's list of terminals", "held", held=True)
def open_terminal(given: Given) -> list[int]:
    return list(os.openpty())
