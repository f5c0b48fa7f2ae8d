"""Which steps are shadowed.

"auto": steps 0, 1 and 4, then steps at growing distances, the first steps after an ERROR, one
when something drifts, the first evaluations, and the last steps before them, with which an epoch
ends. It measures what its steps cost beyond plain ones and waits until the whole is below SHARE of
the run; SECONDS are free, because a run of minutes has no use for a monitor that waits for them.

The free seconds are spread: AT_ONCE of them may be used when the run begins, the others are given
as it goes on, a part of all is kept for evaluations, errors and drifts, and the distances are as
large as the price of a step asks for, so that what is left lasts until the end of the run. How long
that is the program may say; else it is taken to be long.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

SHARE = 0.01  # of the run's time
SECONDS = 5.0  # in all, that a short run pays at most
AT_ONCE = 2.5  # of them, when the run begins
GIVEN = 30.0  # seconds of the run after which it has all of them
FOR_STEPS = 0.8  # of what is allowed: the rest is for evaluations, errors and drifts
LONG = 2000  # steps, of a run whose length is not known, at least; or so many times as so far:
LONGER = 4
NEWEST = 8  # shadow steps whose price is the price of the next
FIRST = (0, 1, 4)
GROWTH = 4  # the next distance is this part of the steps so far
AFTER_ERROR = 2  # steps
RECURS = 0.25
DRIFT_GAP = 16  # steps between two that are asked for because something drifts

_STEPS = re.compile(r"steps=(\d+)-(\d+)$")
_EVERY = re.compile(r"every=(\d+)$")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants: `auto`, `off`, every so many steps, or a range of steps; of all layers
    or of some; and whether what torch.compile has made runs eagerly in these steps.
    """

    mode: str  # auto | off | every | steps
    every: int = 0
    first: int = 0
    last: int = 0
    layers: tuple[str, ...] = ()  # names or globs; empty: everything
    eager: bool = False
    replay: bool = False  # each deterministic operator runs a second time in its own type


def parse(text: str) -> Asked:
    """Words: `auto`, `off`, `every=N` or `steps=A-B`, and in any order with it `layers=GLOB,…`,
    `eager` and `replay`. ValueError for anything else.
    """
    layers: tuple[str, ...] = ()
    eager = replays = False
    when: list[str] = []
    if not isinstance(text, str):
        raise _wrong(text)
    for word in text.split():
        if word == "eager":
            eager = True
        elif word == "replay":
            replays = True
        elif word.startswith("layers="):
            layers += tuple(each for each in word.removeprefix("layers=").split(",") if each)
            if not layers:
                raise ValueError(f"shadow={text!r}: layers= names no layer")
        else:
            when.append(word)
    if len(when) > 1 or not text.strip():
        raise _wrong(text)
    asked = _when(when[0] if when else "auto", text)
    return replace(asked, layers=layers, eager=eager, replay=replays)


def _wrong(text: str) -> ValueError:
    return ValueError(
        f"shadow={text!r} is not one of auto, off, every=N, steps=A-B, with layers=GLOB,…, eager or"
        " replay beside it"
    )


def _when(text: str, whole: str) -> Asked:
    if text in ("auto", "off"):
        return Asked(text)
    if found := _EVERY.match(text):
        if int(found[1]) > 0:
            return Asked("every", every=int(found[1]))
    elif (found := _STEPS.match(text)) and int(found[1]) <= int(found[2]):
        return Asked("steps", first=int(found[1]), last=int(found[2]))
    raise _wrong(whole)


class Schedule:
    """Of one run."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._next = FIRST[-1] + 1
        self._wanted = 0  # steps, for an ERROR or a drift
        self._why = ""
        self._last_drift = -DRIFT_GAP
        self._evaluations = 0
        self._changes = 0  # of the state, by casts and loads
        self._evaluated_at = 0  # before which step the newest one was
        self._epoch_ends = -1  # the step before which the next one is expected
        self._length: int | None = None  # of the run, in steps, where it is known
        self._costs: list[float] = []  # of the newest shadow steps
        self._plain: list[float] = []  # seconds of plain steps, the newest
        self._dearest = 0.0  # seconds of a shadow step
        self.extra = 0.0  # seconds that shadow steps have cost beyond plain ones
        self.total = 0.0  # seconds of the run so far

    @property
    def eager(self) -> bool:
        """Whether what torch.compile has made runs eagerly in shadow steps. Then these must not end
        inside of a compiled function, as where a model's forward pass begins: torch puts the state
        of its dispatcher back afterwards.
        """
        return self._asked.eager

    @property
    def replays(self) -> bool:
        """Whether operators run twice in shadow steps, in their own type."""
        return self._asked.replay

    @property
    def plain_seconds(self) -> float | None:
        """Median of the newest plain steps."""
        if not self._plain:
            return None
        return sorted(self._plain)[len(self._plain) // 2]

    def why(self, step: int) -> str:
        """Why step `step` is to be shadowed: first | schedule | error | drift | epoch | asked; "":
        it is not.
        """
        asked = self._asked
        if asked.mode == "off":
            return ""
        if asked.mode == "every":
            return "asked" if step % asked.every == 0 else ""
        if asked.mode == "steps":
            return "asked" if asked.first <= step <= asked.last else ""
        if not self._can_afford(step):
            return ""
        if step in FIRST:
            return "first"
        if self._wanted:
            self._wanted -= 1
            return self._why
        if step == self._epoch_ends and _is_next(self._evaluations):
            return "epoch"
        if step >= self._next and self._can_afford(step, FOR_STEPS):
            return "schedule"
        return ""

    def expect(self, steps: int) -> None:
        """The run will have so many steps."""
        self._length = steps

    def _can_afford(self, step: int, part: float = 1.0) -> bool:
        if step == 0:
            return True
        return self.extra + self._dearest <= part * self._allowed()

    def _allowed(self) -> float:
        given = AT_ONCE + (SECONDS - AT_ONCE) * min(1.0, self.total / GIVEN)
        return max(given, SHARE * self.total)

    def _distance(self, step: int) -> int:
        """From shadow step `step` to the next: a part of the steps so far, or as many as let the
        seconds that are left last.
        """
        usual = max(1, step // GROWTH)
        price = sum(self._costs) / max(1, len(self._costs))
        if price <= 0:
            return usual
        left = int((FOR_STEPS * max(SECONDS, self._allowed()) - self.extra) / price)
        if left < 1:
            return usual  # until there is more
        if self._length is not None:
            return max(usual, (self._length - step) // (left + 1))
        end = max(LONG, LONGER * (step + 1))
        growth = (end / (step + 1)) ** (1.0 / left)
        return max(usual, round((step + 1) * (growth - 1)))

    def plain(self, seconds: float) -> None:
        """A step without shadow took so long."""
        self.total += seconds
        self._plain.append(seconds)
        if len(self._plain) > 64:
            del self._plain[:32]

    def most_seconds(self) -> float:
        """That the next shadow step may take of its own; then it ends where it is. The first one
        may take everything: of half a step nothing is known.
        """
        if self._asked.mode != "auto":
            return math.inf
        return (self._allowed() if self.extra else SECONDS) - self.extra

    def shadowed(self, step: int, seconds: float, cost: float, ended_early: bool = False) -> None:
        """Step `step` took `seconds`, of which the shadow took `cost`. One that had to end early is
        tried again when twice as much is allowed.
        """
        self.total += seconds
        self.extra += cost
        self._dearest = max(self._dearest, 2 * cost if ended_early else cost)
        self._costs = [*self._costs[1 - NEWEST :], cost]
        self._next = max(self._next, step + self._distance(step))

    def evaluation(self, step: int) -> bool:
        """The model is evaluated before step `step`: whether that is looked at, as the first, the
        second, the fourth … are.
        """
        self._evaluations += 1
        epoch, self._evaluated_at = step - self._evaluated_at, step
        self._epoch_ends = step + epoch - 1 if epoch > 1 else -1
        is_next = _is_next(self._evaluations)
        return self._asked.mode == "auto" and is_next and self._can_afford(step)

    def changed(self, step: int) -> bool:
        """A module was cast, or a state loaded, before the forward pass of step `step`: whether the
        step is looked at from there on, as after the first, the second, the fourth … change.
        """
        self._changes += 1
        is_next = _is_next(self._changes)
        return self._asked.mode == "auto" and is_next and self._can_afford(step)

    def can_pay(self, cost: float) -> bool:
        """Whether a plain step may cost `cost` seconds more, which are counted."""
        if self._asked.mode == "auto" and self.extra + cost > self._allowed():
            return False
        self.extra += cost
        return True

    def needed(self, steps: int) -> float:
        """In how many of `steps` shadow steps a gradient has to be wrong for it to be more than
        chance; where the user has chosen the steps, one is enough.
        """
        return max(2, RECURS * steps) if self._asked.mode == "auto" else 1

    def error(self) -> None:
        """A new ERROR: the next steps are looked at."""
        self._wanted, self._why = AFTER_ERROR, "error"

    def drift(self, step: int) -> None:
        """Something drifts: a new alert, a falling loss scale, a jump of the loss."""
        if step - self._last_drift >= DRIFT_GAP and not self._wanted:
            self._last_drift = step
            self._wanted, self._why = 1, "drift"


def _is_next(count: int) -> bool:
    """The first, the second, the fourth …"""
    return count & (count - 1) == 0
