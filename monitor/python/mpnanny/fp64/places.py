"""Where an operator of a shadow step belongs: phase, line, module. Of a backward pass it is the
forward operator whose derivative is computed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..operators.places import Lines, Place, find_place, is_library, is_users, pass_through

_call_impl = torch.nn.Module._call_impl.__code__
_graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_autograd_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
_sequence_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: -1)

MOST_PLACES = 200_000

pass_through(__file__)

CALLERS_OF_A_CALL = 4  # a framework's hooks stand between a call and the loop that decides on it


@dataclass(slots=True)
class Site:
    """One operator at one place of the program."""

    operator: str  # as it ran: of a backward pass the derivative's operator
    forward: str  # the forward operator that the line calls
    phase: str  # data | forward | loss | backward | optimizer | state
    file: str
    line: int
    module: str | None
    callers: Lines = field(default=(), compare=False)  # as Place.callers, where it was met first

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def called_from(self) -> list[str]:
        """Lines of the program itself, nearest first."""
        return lines_of_program(self.callers)

    @property
    def key(self) -> tuple[str, str, int, str, str | None]:
        return self.operator, self.file, self.line, self.phase, self.module


def lines_of_program(lines: Lines) -> list[str]:
    """Each as file:line, without those of libraries."""
    return [f"{os.path.abspath(file)}:{line}" for file, line in lines if not is_library(file)]


def find_call(module: torch.nn.Module | None, modules: dict[int, str]) -> Place:
    """The user's line that has called into torch at this moment; of `module`, whose hooks run."""
    file, line, outer = "", 0, None
    callers: Lines = ()
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is _call_impl:
            owner = frame.f_locals.get("self")
            if owner is not module:
                outer = modules.get(id(owner))
                if outer is not None and file:
                    break
        elif is_users(code.co_filename):
            if not file:
                file, line = code.co_filename, frame.f_lineno
            elif len(callers) < CALLERS_OF_A_CALL:
                callers += ((code.co_filename, frame.f_lineno),)
        frame = frame.f_back  # type: ignore[assignment]
    return Place("", file, line, modules.get(id(module), outer), callers)


def in_backward() -> bool:
    """Whether autograd runs, and not to compute something again or to derive it once more."""
    return _graph_task_id() != -1 and not torch.is_grad_enabled()


class Places:
    """Follows one step. `modules`: names of the model's modules by id."""

    def __init__(self, modules: dict[int, str]) -> None:
        self._modules = modules
        self._forward: dict[int, Place] = {}  # by the number of the node that autograd made
        self._in_model = False  # the model has run in this step
        self._backward_seen = False
        self.in_optimizer = False
        self.stepped = False  # the optimizer has
        self.outer: Place | None = None  # of a module that is run again: where it was called

    def find(self, operator: str, keep: bool) -> Site | None:
        """None for an operator that the monitor itself calls. `keep`: autograd makes a node for it,
        whose backward pass will be asked for.
        """
        if _graph_task_id() != -1:
            return self._in_backward(operator)
        place = find_place(operator, self._modules, self.outer)
        if place is None:
            return None
        if keep and len(self._forward) < MOST_PLACES:
            self._forward.setdefault(_sequence_number() - 1, place)
        return self._site(operator, self._phase(place), place)

    def place_of(self, sequence: int) -> Place | None:
        """Where the node of autograd with this number was made."""
        return self._forward.get(sequence)

    def _site(self, operator: str, phase: str, place: Place) -> Site:
        return Site(
            operator, place.operator, phase, place.file, place.line, place.module, place.callers
        )

    def _phase(self, place: Place) -> str:
        if self.in_optimizer:
            return "optimizer"
        if place.module is not None:
            self._in_model, self._backward_seen = True, False
            return "forward"
        if self._backward_seen:
            return "state" if self.stepped else "optimizer"  # averages; clipping and the like
        return "loss" if self._in_model or self.outer is not None else "data"

    def _in_backward(self, operator: str) -> Site:
        self._backward_seen = True
        node = _autograd_node()
        own = find_place(operator, self._modules, self.outer)
        if own is not None and own.file:  # a backward pass that the user wrote, or a recomputation
            return self._site(operator, "backward", own)
        forward = self._forward.get(node._sequence_nr()) if node is not None else None
        if forward is not None:
            return self._site(operator, "backward", forward)
        name = node.name().rpartition("::")[2] if node is not None else ""
        return Site(operator, name, "backward", "", 0, None)
