"""`python -m mpnanny …` is `mpnanny …`."""

from __future__ import annotations

import os
import sys

from . import _program


def main() -> int:
    program = _program.find()
    if program is None:
        print(f"mpnanny: {_program.MISSING}.", file=sys.stderr)
        return 2
    try:
        os.execv(program, ["mpnanny", *sys.argv[1:]])
    except OSError as error:
        print(f"mpnanny: {program} could not be started: {error.strerror}.", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
