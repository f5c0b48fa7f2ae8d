"""Archives that are broken in one place, drawn from a seed: bytes of the file, its directory, its
members, and what the members say. A broken member is packed again, so that no checksum hides it
from who reads it.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

Members = list[tuple[str, bytes]]
HUGE = [0, -1, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 64, 10**40, 1 << 20]
ODD: list[Any] = [None, "", "x" * 70000, "../../../etc/passwd", [], {}, True, 1e308, -1.5, "\u0000"]
DEEP = 100_000


def unpacked(archive: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(archive)) as held:
        return [(each.filename, held.read(each)) for each in held.infolist()]


def packed(members: Members) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as made:
        warnings.simplefilter("ignore")  # names that are there twice
        for name, content in members:
            made.writestr(name, content)
    return out.getvalue()


# --- bytes ---


def flipped(content: bytes, draw: random.Random, most: int = 16) -> bytes:
    if not content:
        return b"\x80"
    changed = bytearray(content)
    for _ in range(draw.randint(1, most)):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(max(1, len(content)))]


def overwritten(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(max(1, len(content)))
    put = draw.choice([b"\x00" * 64, b"\xff" * 64, draw.randbytes(64), content[:64]])
    return content[:at] + put + content[at + draw.choice([0, 64]) :]


def huge_sizes(content: bytes, draw: random.Random) -> bytes:
    """In the directory of the zip: sizes, offsets, lengths of names, number of entries."""
    changed = bytearray(content)
    mark, fields = draw.choice(
        [
            (b"PK\x01\x02", [(20, "<I"), (24, "<I"), (28, "<H"), (30, "<H"), (42, "<I")]),
            (b"PK\x03\x04", [(18, "<I"), (22, "<I"), (26, "<H"), (28, "<H")]),
            (b"PK\x05\x06", [(8, "<H"), (10, "<H"), (12, "<I"), (16, "<I")]),
        ]
    )
    places = [each.start() for each in re.finditer(re.escape(mark), content)]
    at, (offset, form) = draw.choice(places), draw.choice(fields)
    most = (1 << (8 * struct.calcsize(form))) - 1
    struct.pack_into(form, changed, at + offset, draw.choice([most, most - 1, most // 2, 0, 1]))
    return bytes(changed)


# --- members ---


def of_members(archive: bytes, draw: random.Random) -> bytes:
    """One is gone, empty, there twice, renamed, or holds what another one holds."""
    members = unpacked(archive)
    at, other = draw.randrange(len(members)), draw.randrange(len(members))
    name, content = members[at]
    what = draw.randrange(6)
    if what == 0:
        del members[at]
    elif what == 1:
        members[at] = (name, b"")
    elif what == 2:
        members.append((name, members[other][1]))
    elif what == 3:
        members.append((name, flipped(content, draw)))
    elif what == 4:
        odd = [
            "../" * 8 + "tmp/x",
            "/" + name,
            name + "\x01",
            "a" * 60000,
            name.upper(),
            "data.pkl",
        ]
        members[at] = (draw.choice(odd), content)
    else:
        members[at] = (name, members[other][1])
    return packed(members)


def within(
    archive: bytes, draw: random.Random, wanted: str, change: Callable[[bytes, Any], bytes]
) -> bytes:
    """`change` of one member whose name holds the pattern."""
    members = unpacked(archive)
    places = [at for at, (name, held) in enumerate(members) if re.search(wanted, name) and held]
    at = draw.choice(places)
    members[at] = (members[at][0], change(members[at][1], draw))
    return packed(members)


def of_a_pickle(content: bytes, draw: random.Random) -> bytes:
    """Numbers, names and nesting of a pickle; the command of the last would leave a file."""
    what = draw.randrange(7)
    if what == 0:
        return flipped(content, draw, 4)
    if what == 1:
        return content[:2] + draw.choice([b"(", b"]", b"}", b")", b"](a"]) * DEEP + content[2:]
    if what == 2:
        return content[:2] + b"]q\x63" + b"h\x63a" * 1000 + content[2:]  # a list that holds itself
    if what == 3:
        return content[:2] + b"cos\nsystem\nX\x12\x00\x00\x00touch /tmp/of-model\x85R" + content[2:]
    if what == 4:
        return content[:2] + b"X\xff\xff\xff\x7f" + content[2:]
    numbers = [each.start() for each in re.finditer(rb"[KMJ]", content)]
    if not numbers:
        return cut(content, draw)
    at = draw.choice(numbers)
    wide = draw.choice(
        [b"J\xff\xff\xff\x7f", b"J\x00\x00\x00\x80", b"\x8a\x08" + b"\xff" * 7 + b"\x7f"]
    )
    return content[:at] + wide + content[at + {75: 2, 77: 3, 74: 5}[content[at]] :]


def of_code(content: bytes, draw: random.Random) -> bytes:
    """Numbers, names and nesting of serialized TorchScript."""
    text = content.decode(errors="replace")
    lines = text.splitlines()
    at = draw.randrange(max(1, len(lines)))
    what = draw.randrange(9)
    if what == 0:
        return re.sub(r"\b\d+\b", lambda m: str(draw.choice(HUGE)), text).encode()
    if what == 1:
        found = list(re.finditer(r"\b\d+\b", text)) or list(re.finditer(r"\w+", text))
        each = draw.choice(found)
        return (text[: each.start()] + str(draw.choice(HUGE)) + text[each.end() :]).encode()
    if what == 2:
        return re.sub(r"torch\.\w+", "torch.nobody_has", text, count=1).encode()
    if what == 3:
        return re.sub(r"torch\.\w+", "ops.nobody.has", text, count=1).encode()
    if what == 4:
        return "\n".join([*lines[:at], *lines[at + 1 :]]).encode()
    if what == 5:
        return "\n".join([*lines[: at + 1], *lines[at:]]).encode()
    if what == 6:
        deep = "(" * DEEP + "1" + ")" * DEEP
        return re.sub(r"return .*", f"return {deep}", text, count=1).encode()
    if what == 7:
        deep = "\n".join(" " * (4 + at) + "if True:" for at in range(2000))
        return re.sub(r" +return ", lambda m: f"{deep}\n{m[0]}", text, count=1).encode()
    return re.sub(r"Tensor", draw.choice(["int", "List[Tensor]", "Nobody", "str"]), text).encode()


# --- JSON ---


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def of_json(content: bytes, draw: random.Random) -> bytes:
    """One thing in a document is another one."""
    try:
        document = json.loads(content)
    except ValueError:
        return flipped(content, draw)
    found = list(places(document)) if isinstance(document, (dict, list)) else []
    if not found:
        return draw.choice([b"", b"[]", b"null", b'{"a": 1, "a": 2}', b"\xff\xfe"])
    what = draw.randrange(8)
    if what == 0:
        return draw.choice([b"[", b'{"a":', b'{"graph_module": ' * 3]) * DEEP
    if what == 1:
        sizes = [(c, k) for c, k in found if k in ("as_int", "storage_offset", "dtype", "as_ints")]
        if sizes:
            container, key = draw.choice(sizes)
            container[key] = draw.choice(HUGE)
            return json.dumps(document).encode()
    if what == 2:
        texts = [(c, k) for c, k in found if k in ("target", "name", "path_name", "as_tensor")]
        if texts:
            container, key = draw.choice(texts)
            others = [c[k] for c, k in texts if isinstance(c[k], str)]
            odd = ["torch.ops.nobody.has.default", "torch.ops.higher_order.nobody", "", *others]
            container[key] = draw.choice(odd)
            return json.dumps(document).encode()
    if what == 3:
        lists = [(c, k) for c, k in found if isinstance(c[k], list) and len(c[k]) > 1]
        if lists:
            container, key = draw.choice(lists)
            draw.shuffle(container[key])
            return json.dumps(document).encode()
    if what == 4:
        return flipped(content, draw, 3)
    container, key = draw.choice(found)
    if what == 5:
        del container[key]
    elif what == 6:
        container[key] = draw.choice(HUGE)
    else:
        other, at = draw.choice(found)
        container[key] = draw.choice([*ODD, json.loads(json.dumps(other[at]))])
    return json.dumps(document).encode()


def mutant(archive: bytes, ending: str, draw: random.Random) -> tuple[str, bytes]:
    """What was done, and the broken archive. Half of them are broken where their format is."""
    ways: list[tuple[str, Callable[[bytes, random.Random], bytes]]] = [
        ("flipped", flipped),
        ("cut", cut),
        ("overwritten", overwritten),
        ("sizes", huge_sizes),
        ("members", of_members),
        ("any member", lambda a, d: within(a, d, "", draw.choice([flipped, cut, overwritten]))),
    ]
    if ending == ".pt":
        own = [
            ("pickle", lambda a, d: within(a, d, r"\.pkl$", of_a_pickle)),
            ("code", lambda a, d: within(a, d, r"/code/.*\.py$", of_code)),
        ]
    else:
        own = [("json", lambda a, d: within(a, d, r"\.json$", of_json))]
    name, way = draw.choice(own if draw.random() < 0.5 else ways)
    return name, way(archive, draw)
