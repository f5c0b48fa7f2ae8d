"""What the tests of choose_precision take from those of auto_diff and of the monitor: models."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "monitor", HERE.parent / "auto_diff", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
