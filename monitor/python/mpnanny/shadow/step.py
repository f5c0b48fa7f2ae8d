"""One shadow step: from the end of an optimizer's step to the end of the next one, and what follows
that until the model runs again: what findings may reach, as rows of its tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..fp64.call import floats
from ..fp64.findings import PROVEN, Finding
from ..fp64.history import is_float, version_of
from ..fp64.noise import LEAST_SHARE, Single, cancelled_of, cancelled_shares
from ..fp64.places import Places, Site
from ..fp64.references import NONE, Entry
from ..model.shards import local_part
from ..operators.modes import own_work, without_modes
from .changes import Changes
from .engine import ShadowMode
from .stopwatch import Stopwatch

MOST_LINES = 4  # from which something was called, that a finding names


def _versions(entry: Entry) -> tuple[int, ...]:
    """Of memory that was computed from beginning to end."""
    return entry.compared[0] if entry.compared and not entry.doubt else ()


class ShadowStep:
    """`names`: of parameters and buffers by their memory. `first_loss`: the magnitude of the run's
    first losses, beside which a loss may be too small to matter.
    """

    def __init__(
        self,
        number: int,
        modules: dict[int, str],
        changes: Changes,
        first_loss: float | None,
        trouble: Callable[[Exception], None],
        most_bytes: int,
    ) -> None:
        self.number = number
        self.places = Places(modules)
        self._changes = changes
        self._trouble = trouble
        self.started = Stopwatch()
        self.mode = ShadowMode(self.places, changes, trouble, most_bytes, number, first_loss)
        self._single: list[tuple[str, Single]] = []  # gradients that are looked at once more
        changes.begin(number)

    # --- what happens in the step ---

    def backward_begins(self, losses: Iterable[torch.Tensor]) -> None:
        """`losses` are about to be derived."""
        losses = [each for each in losses if is_float(each)]
        references, tape = self.mode.references, self.mode.tape
        history = self.mode.followed.history
        followed = bool(losses) and self.mode.looking and history
        self.mode.coverage.derives(
            followed and all(references.entry(each) is not None for each in losses)
        )
        for loss in losses:
            entry = references.entry(loss)
            reference = references.of(loss)
            if entry is None or reference is None:
                largest = loss.detach().abs().max() if loss.numel() else torch.zeros(())
                tape.write(self._loss_alone, tape.numbers(largest), not history)
            else:
                slot = tape.compare(loss, reference)
                tape.write(tape.judge.loss, entry.memory, slot, 0.0, not history)

    def _loss_alone(self, size: Callable[[], list[float]], alone: bool) -> None:
        self.mode.tape.judge.loss(NONE, NONE, size()[0], alone)

    @property
    def loss(self) -> float | None:
        """The magnitude of the newest one."""
        return self.mode.tape.judge.loss_size

    def site_of(self, sequence: int) -> Site | None:
        """Where the node of autograd with this number was made."""
        place = self.places.place_of(sequence)
        if place is None:
            return None
        phase = "forward" if place.module is not None else "loss"
        return Site(place.operator, place.operator, phase, place.file, place.line, place.module)

    def reach_outputs(self, outputs: Any) -> None:
        """What a module that was run again gives back."""
        for output in floats(outputs):
            entry = self.mode.references.entry(output)
            if entry is not None:
                self.mode.tape.write(self.mode.tape.judge.output, entry.memory, "", NONE)

    def reach_gradients(self, gradients: Iterable[tuple[str, torch.Tensor | None]]) -> None:
        """Gradients of a backward pass that was run again."""
        for name, gradient in gradients:
            entry = None if gradient is None else self.mode.references.entry(gradient)
            if entry is not None:
                tape = self.mode.tape
                tape.write(tape.judge.gradient_again, name, entry.memory)

    def is_skipped_at(self, scale: float) -> None:
        """What runs again is of a step that a loss scaler has skipped at this scale."""
        self.mode.tape.write(self.mode.tape.judge.optimizer, scale, False)

    def gradients(
        self, parameters: Iterable[tuple[str, torch.Tensor]], scale: float | None = None
    ) -> None:
        """An optimizer is about to use the gradients of `parameters`. `scale`: it is not, the loss
        scale was this and a gradient was not finite.
        """
        with own_work():
            self._gradients(parameters, scale)

    def _gradients(
        self, parameters: Iterable[tuple[str, torch.Tensor]], scale: float | None
    ) -> None:
        tape, history = self.mode.tape, self.mode.followed.history
        tape.write(tape.judge.optimizer, scale, not history)
        for name, parameter in parameters:
            gradient = local_part(parameter.grad)
            if gradient is None or not is_float(gradient):
                continue
            entry = self.mode.references.entry(gradient)
            reference = self.mode.references.of(gradient)
            slot = NONE
            if entry is not None and reference is not None:
                slot = tape.compare(gradient, reference)
            if scale is None:
                compared = slot != NONE and history
                self.mode.coverage.uses(name, local_part(parameter), compared)
            if entry is None or slot == NONE:
                continue
            if scale is None:
                tape.write(self._cancels, name, gradient, version_of(gradient), slot)
            tape.write(tape.judge.gradient, name, entry.memory, slot)
        tape.write(tape.judge.optimizer_ends)

    def _cancels(self, name: str, gradient: torch.Tensor, version: int, slot: int) -> None:
        """`version`: of the gradient, when it was compared."""
        tape = self.mode.tape
        found = tape.figures(slot)
        if found is None or version != version_of(gradient):
            return
        references, zero = self.mode.references, self.mode.dependencies.zero_of(gradient)
        cancelled = cancelled_of(gradient, found, references, tape.rounding, zero)
        if cancelled is True:
            self.mode.coverage.cancels(name, 1.0)
        elif cancelled:
            self._single.append((name, cancelled))

    def _tell_cancelled(self) -> None:
        """Of gradients of which not everything cancels out, it is looked at single elements."""
        single, self._single = self._single, []
        if single:
            shares = self.mode.tape.numbers(cancelled_shares([each for _, each in single]))
            self.mode.tape.write(self._tell_shares, [name for name, _ in single], shares)

    def _tell_shares(self, names: list[str], shares: Callable[[], list[float]]) -> None:
        for name, share in zip(names, shares(), strict=True):
            if share >= LEAST_SHARE:
                self.mode.coverage.cancels(name, share)

    def _keep_errors(self) -> None:
        """Of what this step has computed and leaves behind."""
        tape, is_leaf = self.mode.tape, self._changes.is_leaf
        living = self.mode.references.living()
        self._changes.kept.remember(
            (each.alive, tape.error(each), _versions(each), each.node.site.source)
            for each in living
            if each.node is not None and not is_leaf(each.alive.cdata)
        )

    # --- the end ---

    def finish(self, states: Iterable[tuple[str, torch.Tensor]]) -> list[Finding]:
        """The step is over. `states`: buffers by name. What was found and
        counts, the worst first.
        """
        mode, tape = self.mode, self.mode.tape
        looked, mode.looking = mode.looking, False
        try:
            with without_modes():  # the program may make fake tensors at this moment
                tape.settle()
                if looked:
                    mode.keep()
                mode.history.clear()  # what only it kept alive goes
                for name, tensor in states:
                    for each in floats(tensor):
                        entry, reference = mode.references.entry(each), mode.references.of(each)
                        if entry is not None and reference is not None:
                            slot = tape.compare(each, reference)
                            tape.write(tape.judge.state, name, entry.memory, slot)
                self._tell_cancelled()
                self._changes.finish(tape)
                tape.write(self._keep_errors)
        except Exception as error:
            self._trouble(error)
        found = tape.finish()
        for each in found:
            home = self._changes.homes.get(each.site.key)
            callers = [each.site, *((each.root().site,) if each.parents else ())]
            if home is not None and each.precision == PROVEN:
                each.detail["home"] = home.source
                callers.insert(1, home)
            lines = [line for one in callers for line in one.called_from]
            lines += each.detail.get("came_in", {}).get("called_from", [])
            if lines:
                each.detail["called_from"] = list(dict.fromkeys(lines))[:MOST_LINES]
        self._changes.homes.clear()
        try:
            tape.keep()
        except OSError as error:
            self._trouble(error)
        mode.references.clear()
        return found
