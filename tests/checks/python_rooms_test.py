"""The rooms of the monitor's Python lie one above the other: a room imports those below it only."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

PACKAGE = pathlib.Path(__file__).parents[2] / "monitor/python/mpnanny"
# From the lowest to the highest; docs/architecture.md says what each of them is. `mpnanny`: the
# modules that lie in no folder, which are what users import.
ROOMS = (
    "_core",  # the C++
    "base",
    "operators",
    "model",
    "fp64",
    "steps",
    "hooks",
    "process",
    "report",
    "relations",
    "ranks",
    "mismatch",
    "shadow",
    "monitor",
    "callbacks",
    "programs",
    "compiled",
    "diff",
    "precision",
    "guard",
    "mpnanny",
    "_launch",
)


def room_of(module: tuple[str, ...]) -> str:
    """Of a module below the package, by the parts of its name."""
    known = module[:1] == ("_core",) or len(module) > 1 or module[:1] and module[0] in ROOMS
    return module[0] if known else "mpnanny"


def imports(file: pathlib.Path, package: pathlib.Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line and the module of ours that it imports; in a function or for types alone, too."""
    here = file.relative_to(package).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] == "mpnanny":
                    yield node.lineno, tuple(each.name.split(".")[1:])
        elif isinstance(node, ast.ImportFrom):
            parts = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                parts = here[: len(here) - node.level + 1] + parts
            elif parts[:1] != ("mpnanny",):
                continue
            else:
                parts = parts[1:]
            # `from .. import _core`: what is imported is a room itself.
            for each in node.names if not parts else ():
                yield node.lineno, (each.name,)
            if parts:
                yield node.lineno, parts


def upward(package: pathlib.Path) -> list[str]:
    """Every line that breaks the order, and what it does."""
    found = []
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package).as_posix()
        room = room_of(file.relative_to(package).with_suffix("").parts)
        if room not in ROOMS:
            found.append(f"{name}: the room {room} is not in the table of rooms")
            continue
        for line, module in imports(file, package):
            to = room_of(module)
            if to not in ROOMS or ROOMS.index(to) > ROOMS.index(room):
                found.append(f"{name}:{line}: {room} imports {to}, which is not below it")
    return found


def test_no_room_imports_one_above_it():
    assert not upward(PACKAGE), "\n".join(upward(PACKAGE))


def test_every_room_of_the_table_is_there():
    rooms = {file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*/*.py")}
    assert rooms | {"_core", "mpnanny"} == set(ROOMS)


def test_an_arrow_upwards_is_found_wherever_it_stands(tmp_path):
    files = {
        "__init__.py": "from .monitor import session\n",
        "base/notes.py": "import os\n",
        "fp64/call.py": (
            "from typing import TYPE_CHECKING\n\n"
            "from .. import _core\nfrom ..base.notes import os\nfrom . import other\n\n"
            "if TYPE_CHECKING:\n    from ..shadow.step import ShadowStep\n\n\n"
            "def late():\n    from mpnanny.monitor import session\n"
        ),
        "shadow/step.py": "from ..fp64.call import late\nimport mpnanny.diff\n",
        "monitor/session.py": "from .. import plot\nfrom ..shadow import step\n",
        "attic/old.py": "",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert upward(tmp_path) == [
        "attic/old.py: the room attic is not in the table of rooms",
        "fp64/call.py:8: fp64 imports shadow, which is not below it",
        "fp64/call.py:12: fp64 imports monitor, which is not below it",
        "monitor/session.py:1: monitor imports mpnanny, which is not below it",
        "shadow/step.py:2: shadow imports diff, which is not below it",
    ]
