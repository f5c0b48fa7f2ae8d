"""How long something takes this process."""

from __future__ import annotations

import time


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._clock, self._process = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """By the clock, but no more than this process had of them: what others on the machine take
        is not what a shadow step costs, and must not decide how many there are.
        """
        return min(time.perf_counter() - self._clock, time.process_time() - self._process)
