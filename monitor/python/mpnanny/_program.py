"""Where the program `mpnanny` is: the server and the command line, which are no Python."""

from __future__ import annotations

import os
import pathlib
import shutil
import sysconfig
from collections.abc import Iterator

MISSING = (
    "the program `mpnanny` was not found: this package is the monitor, which works without it."
    " The program comes with a release's wheel or archive, or from ./scripts/build in the"
    " repository (build/release/bin/mpnanny): put its folder on the PATH, or name it in"
    " MPNANNY_PROGRAM"
)


def find() -> str | None:
    """The program's path; None where there is none."""
    if named := os.environ.get("MPNANNY_PROGRAM"):
        return named
    return next((str(path) for path in _places() if _is_program(path)), None)


def _places() -> Iterator[pathlib.Path]:
    package = pathlib.Path(__file__).resolve().parent
    yield package / "bin" / "mpnanny"  # a wheel's
    yield pathlib.Path(sysconfig.get_path("scripts")) / "mpnanny"
    yield package.parents[1] / "bin" / "mpnanny"  # the build's folder
    # All of the PATH: what stands first may be a script that starts this module.
    for folder in os.get_exec_path():
        if found := shutil.which("mpnanny", path=folder):
            yield pathlib.Path(found)


def _is_program(path: pathlib.Path) -> bool:
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and not file.read(2) == b"#!"
    except OSError:
        return False
