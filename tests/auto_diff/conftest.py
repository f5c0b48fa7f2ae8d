"""What the tests of auto_diff take from those of the monitor: its models."""

from __future__ import annotations

import pathlib
import sys

# Its first import takes seconds, and the time limit of a trial could end it halfway.
import torch._dynamo  # noqa: F401

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "monitor", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
