"""The verdict on a run that has ended, as the program gives it, which decides alone what is said of
a run: the one that started the command under `mpnanny run`, else the one that is installed.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess

_SECONDS = 20  # a run of a million steps takes one


def verdict(run: str) -> str:
    """The first line of `mpnanny diagnose RUN`; "" where no program is known, or it has none."""
    program = os.environ.get("MPNANNY_PROGRAM") or _installed()
    if not program:
        return ""
    with contextlib.suppress(Exception):
        told = subprocess.run(
            [program, "diagnose", run],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        if told.returncode == 0:
            return told.stdout.decode(errors="replace").partition("\n")[0]
    return ""


def _installed() -> str:
    """The program beside this package (a build, a release's folder), or the one on the PATH; ""
    where there is none, as beside a wheel of the monitor alone.
    """
    beside = pathlib.Path(__file__).resolve().parents[3] / "bin" / "mpnanny"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("mpnanny") or ""
