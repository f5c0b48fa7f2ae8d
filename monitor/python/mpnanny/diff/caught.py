"""Runs a program of the user's and catches the first call of each suspected function that tensors
go into: a fork at that moment compares the call with its real arguments, in the state in which the
program made it, while the program waits.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import os
import runpy
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

from ..operators.places import pass_through
from ..programs.cuda_on_cpu import CudaOnCpu
from ..programs.loading import file_root, started_as
from ..programs.policy import AS_IT_RUNS, Policy
from ..programs.problem import users_line
from ..programs.program import Options, Program
from ..programs.specification import Value
from ..programs.target import Target
from .forked import Tell, forked

pass_through(__file__)

MOST_DEPTH = 6  # of objects in objects that are looked through for tensors
MOST_LOOKED_AT = 5000
_CALL_SECONDS = 30.0
_HALVES = (torch.float16, torch.bfloat16)
_PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_NO_PLAIN_CALL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(slots=True)
class Caught:
    """A call of the user's program. `low`: the 16-bit dtype that autocast has there, or that its
    tensors and weights have; None: it computes in FP32. `beside_low`: the program has been in a
    16-bit region before, and is in none here.
    """

    qualname: str
    program: Callable[[Options, torch.dtype | None], Program]  # inputs' FP32 numbers in this dtype
    words: list[str]
    in_autocast: bool
    low: torch.dtype | None
    beside_low: bool
    with_gradients: bool
    entry: str

    def policies(self, hypothetical: Sequence[Policy]) -> list[tuple[Policy, torch.dtype | None]]:
        """Under which the call is compared, with the dtype that its FP32 inputs get: as it runs
        where that is in 16 bits, else, in a program without any, `hypothetical`, of FP32 inputs and
        of 16-bit ones.
        """
        if self.low is not None:
            name = "cuda-autocast" if self.in_autocast else AS_IT_RUNS
            return [(Policy(name, _PRECISIONS[self.low], "cpu"), None)]
        if self.beside_low:
            return []
        return [(each, low) for each in hypothetical for low in (each.low, None)]


@dataclass(slots=True)
class Wanted:
    """A suspect's functions, the innermost first: (file, first line of its code)."""

    at: int
    functions: list[tuple[str, int]]
    attempts: int = 0
    done: bool = False
    why: str = ""  # why the last call could not be compared


MOST_ATTEMPTS = 3  # calls of one suspect that are looked at

Compare = Callable[[int, Caught], dict[str, Any]]


def catch(
    entry: str, root: str, wanted: list[Wanted], compare: Compare, tell: Tell, seconds: float
) -> None:
    """Runs `entry` as it is started, for at most `seconds`. What `compare` makes of a call is
    reported as {"at", "proof"}, and at last how the program went as {"entry"}.
    """
    with _as_started(entry, root) as regions:
        deadline = time.monotonic() + seconds
        catcher = _Catcher(entry, wanted, compare, tell, deadline, regions)
        sys.setprofile(catcher.hear)
        try:
            name = started_as(entry)
            if name:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(entry, run_name="__main__")
            ended = ""
        except _AllCaught:
            ended = ""
        except BaseException as error:
            ended = _words_of(error, root)
        finally:
            sys.setprofile(None)
    for each in wanted:
        if each.why and not each.done:
            tell({"at": each.at, "why": each.why})
    tell({"entry": ended})


class _AllCaught(BaseException):
    pass


@dataclass(slots=True)
class _Regions:
    """`any_low`: one of 16 bits has been entered."""

    any_low: bool = False


class _Asks(Exception):
    """Of a program that ends because of its command line."""


@contextlib.contextmanager
def _as_started(entry: str, root: str) -> Iterator[_Regions]:
    """argv, the path, one thread (a fork has no other), the CPU for CUDA, and nothing compiled."""

    def refuse(self: argparse.ArgumentParser, message: str) -> None:
        raise _Asks(message)

    def as_written(model: Any = None, **options: Any) -> Any:
        return (lambda given: given) if model is None else model

    regions = _Regions()
    autocast: Any = torch.amp.autocast_mode.autocast
    enter = autocast.__enter__

    def entered(self: Any) -> Any:
        made = enter(self)
        if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") in _HALVES:
            regions.any_low = True
        return made

    autocast.__enter__ = entered
    torch.set_num_threads(1)
    torch.set_autocast_cache_enabled(False)  # the policy's own cache lasts longer than a region
    sys.argv = [entry]
    for folder in (root, file_root(entry)):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    argparse.ArgumentParser.error = refuse  # type: ignore[method-assign, assignment]
    torch.set_num_threads = lambda number: None  # type: ignore[assignment]
    torch.compile = as_written
    with contextlib.ExitStack() as stack:
        if not torch.cuda.is_available():
            stack.enter_context(CudaOnCpu())
        stack.enter_context(Policy("cuda-autocast", "bf16", "cpu").installed())
        yield regions


def _words_of(error: BaseException, root: str) -> str:
    if isinstance(error, _Asks):
        return f"it asks for arguments: {error}"
    place = users_line(error, root)[0]
    words = (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:300]
    return words + (f" (at {place})" if place else "")


class _Catcher:
    """Hears each call of a Python function (sys.setprofile)."""

    def __init__(
        self,
        entry: str,
        wanted: list[Wanted],
        compare: Compare,
        tell: Tell,
        deadline: float,
        regions: _Regions,
    ) -> None:
        self._entry = entry
        self._wanted = wanted
        self._compare = compare
        self._tell = tell
        self._deadline = deadline
        self._regions = regions
        self._process = os.getpid()
        self._by_code: dict[types.CodeType, list[Wanted]] = {}
        self._by_place: dict[tuple[str, int], list[Wanted]] = {}
        for each in wanted:
            for place in each.functions:
                self._by_place.setdefault(place, []).append(each)

    def hear(self, frame: types.FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        found = self._by_code.get(code)
        if found is None:
            place = (os.path.realpath(code.co_filename), code.co_firstlineno)
            found = self._by_place.get(place, [])
            if code.co_name == "<module>" or code.co_flags & _NO_PLAIN_CALL:
                found = []
            self._by_code[code] = found
        if found and os.getpid() == self._process:
            sys.setprofile(None)
            try:
                for each in found:
                    if not each.done and each.attempts < MOST_ATTEMPTS:
                        self._look_at(each, frame)
            finally:
                sys.setprofile(self.hear)
            if all(each.done for each in self._wanted):
                raise _AllCaught

    def _look_at(self, wanted: Wanted, frame: types.FrameType) -> None:
        call = _Call(frame)
        if not call.has_tensors:
            return
        wanted.attempts += 1

        def work(tell: Tell) -> None:
            try:
                caught = call.caught(self._entry, self._regions.any_low)
            except Exception as error:
                why = f"its arguments cannot be copied: {type(error).__name__}: {error}"[:300]
                tell({"verdict": "not_tried", "why": why})
                return
            with (
                torch.inference_mode(False),
                torch.enable_grad(),
                torch.autocast("cpu", enabled=False),
            ):
                tell(self._compare(wanted.at, caught))

        got: list[dict[str, Any]] = []
        left = self._deadline - time.monotonic()
        how = forked(work, min(_CALL_SECONDS, max(1.0, left)), got.append)
        if not got:
            wanted.why = f"the call of {frame.f_code.co_name} could not be compared: {how}"
        elif got[-1]["verdict"] == "not_tried":
            wanted.why = got[-1]["why"]
        else:
            wanted.done = True
            self._tell({"at": wanted.at, "proof": got[-1]})


class _Call:
    """The call that a frame begins."""

    def __init__(self, frame: types.FrameType) -> None:
        self._frame = frame
        code = frame.f_code
        given = dict(frame.f_locals)
        self._positional = [given[name] for name in code.co_varnames[: code.co_argcount]]
        at = code.co_argcount
        self._named = {
            name: given[name] for name in code.co_varnames[at : at + code.co_kwonlyargcount]
        }
        at += code.co_kwonlyargcount
        if code.co_flags & inspect.CO_VARARGS:
            self._positional += given[code.co_varnames[at]]
            at += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            self._named |= given[code.co_varnames[at]]
        self._tensors = tensors_in((self._positional, self._named))

    @property
    def has_tensors(self) -> bool:
        return bool(self._tensors)

    def caught(self, entry: str, beside_low: bool) -> Caught:
        """To be asked for in the process that compares it: it changes the state of autocast."""
        in_autocast = torch.is_autocast_enabled("cpu")
        low = torch.get_autocast_dtype("cpu") if in_autocast else None
        if low not in _HALVES:
            in_autocast, low = False, None
            low = next((each.dtype for each in self._tensors if each.dtype in _HALVES), None)
        function = _answering(_function_of(self._frame))
        names = self._frame.f_code.co_varnames
        # Tensors that belong to a graph of the program cannot be copied.
        memo: dict[int, Any] = {
            id(each): each.detach().clone() for each in self._tensors if not each.is_leaf
        }
        positional, named = copy.deepcopy((self._positional, self._named), memo)
        values = [Value("", _shown(names, at, each), each) for at, each in enumerate(positional)]
        values += [Value(name, f"{name}={_form(each)}", each) for name, each in named.items()]
        qualname = getattr(self._frame.f_code, "co_qualname", self._frame.f_code.co_name)

        def program(options: Options, low: torch.dtype | None) -> Program:
            def cast(value: Any) -> Any:
                is_single = isinstance(value, torch.Tensor) and value.dtype is torch.float32
                return value.to(low) if low is not None and is_single else value

            given = [Value(each.name, each.words, tree_map(cast, each.value)) for each in values]
            return Program(Target(qualname, lambda: function, ""), given, options)

        return Caught(
            qualname,
            program,
            [each.words for each in values],
            in_autocast,
            low,
            beside_low,
            torch.is_grad_enabled() and not torch.is_inference_mode_enabled(),
            entry,
        )


def _function_of(frame: types.FrameType) -> types.FunctionType:
    """The function whose call `frame` is, without what decorates it: the state that decorators make
    is there when the call is caught.
    """
    code = frame.f_code
    given = frame.f_locals
    cells = tuple(
        types.CellType(given[name]) if name in given else types.CellType()
        for name in code.co_freevars
    )
    return types.FunctionType(code, frame.f_globals, code.co_name, None, cells)


def _answering(function: types.FunctionType) -> Callable[..., Any]:
    """`function`, with the tensors that it has written where it gives nothing: an average that is
    updated in place.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        before = [
            (each, each._version) for each in tensors_in((args, kwargs)) if not each.is_inference()
        ]
        result = function(*args, **kwargs)
        if result is not None:
            return result
        written = [each for each, version in before if each._version != version]
        return written or None

    return run


def tensors_in(value: Any) -> list[torch.Tensor]:
    """In containers, modules and attributes of objects, each once."""
    found: list[torch.Tensor] = []
    seen: set[int] = set()
    open_values: list[tuple[Any, int]] = [(value, 0)]
    while open_values and len(seen) < MOST_LOOKED_AT:
        each, depth = open_values.pop()
        if id(each) in seen or isinstance(each, (str, bytes, int, float, type, types.ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, nn.Module):
            found += [one for one in (*each.parameters(), *each.buffers()) if id(one) not in seen]
            seen.update(map(id, found))
            if depth < MOST_DEPTH:
                for module in each.modules():
                    open_values += [(one, depth + 1) for one in vars(module).values()]
        elif depth < MOST_DEPTH:
            if isinstance(each, dict):
                open_values += [(one, depth + 1) for one in each.values()]
            elif isinstance(each, (list, tuple, set)):
                open_values += [(one, depth + 1) for one in each]
            elif not isinstance(each, types.FunctionType) and hasattr(each, "__dict__"):
                open_values += [(one, depth + 1) for one in vars(each).values()]
    return found


def _shown(names: tuple[str, ...], at: int, value: Any) -> str:
    return f"{names[at]}={_form(value)}" if at < len(names) else _form(value)


def _form(value: Any) -> str:
    """`float32[8,16]`, `list of 3 tensors`, `GPTConfig`."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, (list, tuple, dict)):
        leaves = tree_flatten(value)[0]
        count = sum(isinstance(each, torch.Tensor) for each in leaves)
        return f"{type(value).__name__} of {count} tensors"
    return type(value).__name__
