"""One program for both processors of a Mac: a Mach-O file that holds theirs, as `lipo` makes it."""

import struct

FAT_MAGIC = 0xCAFEBABE
MACH_MAGIC_64 = 0xFEEDFACF
ALIGNMENT = 14  # as a power of two: the largest page that macOS has, on arm64


def universal(slices: list[bytes]) -> bytes:
    """The programs `slices` in one. Each keeps its own bytes, and with them its signature."""
    head = struct.pack(">II", FAT_MAGIC, len(slices))
    place = 1 << ALIGNMENT
    body = b""
    for data in slices:
        magic, processor, kind = struct.unpack("<III", data[:12])
        if magic != MACH_MAGIC_64:
            raise SystemExit("packaging: this is no program for a Mac")
        head += struct.pack(">IIIII", processor, kind, place + len(body), len(data), ALIGNMENT)
        body += data + b"\0" * (-len(data) % (1 << ALIGNMENT))
    return head.ljust(place, b"\0") + body
