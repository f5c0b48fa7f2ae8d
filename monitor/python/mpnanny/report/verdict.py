"""The verdict on a run that has ended, under `mpnanny run`: as the program gives it, which decides
alone what is said of a run.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

_SECONDS = 20  # a run of a million steps takes one


def verdict(run: str) -> str:
    """The first line of `mpnanny diagnose RUN`; "" where no program is known, or it has none."""
    program = os.environ.get("MPNANNY_PROGRAM")
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
