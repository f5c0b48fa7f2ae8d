"""Python imports this at its start under `mpnanny run`, which puts this folder first on PYTHONPATH.

It must cost nothing and break nothing in programs that never train: torch is not imported here, an
error is not raised, and the sitecustomize that would have been found without us still runs. When
the program itself imports torch, mpnanny.monitor.launched hears of that, and of each optimizer that
is made.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from typing import Any

_OPTIMIZERS = "torch.optim.optimizer"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = os.path.dirname(os.path.dirname(_FOLDER))  # the folder that holds mpnanny


def _say(error: Exception) -> None:
    sys.stderr.write(f"mpnanny: not watching: {type(error).__name__}: {error}\n")


def _listen(module: Any) -> None:
    """torch.optim.optimizer has been imported: hear of every optimizer that is made."""
    optimizer_class = module.Optimizer
    original = optimizer_class.__init__
    broken: list[Exception] = []

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if broken:
            return
        try:
            _launched().optimizer_made(self)
        except Exception as error:
            broken.append(error)
            _say(error)

    optimizer_class.__init__ = __init__


def _launched() -> Any:
    # The mpnanny beside this file goes before an installed one, which may be another version.
    sys.path.insert(0, _PACKAGES)
    try:
        from mpnanny.monitor import launched
    finally:
        sys.path.remove(_PACKAGES)
    return launched


def _torch_imported(_module: Any) -> None:
    _launched().torch_imported()


class _AfterImport:
    """Finds modules as they would be found without us, and calls something once each has run."""

    def __init__(self, calls: dict[str, Any]) -> None:
        self._calls = calls

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        call = self._calls.pop(name, None)
        if call is None:
            return None
        if not self._calls:
            sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        if hasattr(spec.loader, "exec_module"):
            _run_then_call(spec.loader, call)
        return spec


def _run_then_call(loader: Any, call: Any) -> None:
    run = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        run(module)
        try:
            call(module)
        except Exception as error:
            _say(error)

    loader.exec_module = exec_module


def _hook() -> None:
    if _OPTIMIZERS in sys.modules:  # a .pth file was faster
        _listen(sys.modules[_OPTIMIZERS])
        _torch_imported(None)
    else:
        calls = {_OPTIMIZERS: _listen, "torch": _torch_imported}
        sys.meta_path.insert(0, _AfterImport(calls))


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


def _at_exit(began: float, folder: str) -> None:
    """The program, started in `folder`, has ended: if nothing was watched, a record says why."""
    try:
        is_command = os.environ.get("MPNANNY_RUN_PROCESS") == str(os.getpid())
        launched = sys.modules.get("mpnanny.monitor.launched")
        if launched is None and not is_command:
            return  # a helper of the program
        untrained = _load_untrained()
        options = untrained.options()
        if untrained.is_recorded(options["db"], began):
            return  # by processes that the program has started
        name = untrained.script_name(folder)
        if launched is not None:
            launched.program_ends(is_command, name)
        else:
            untrained.record(options, os.path.join(_PACKAGES, "mpnanny"), name)
    except Exception as error:
        _say(error)


def _load_untrained() -> Any:
    """It imports neither torch nor mpnanny, as nothing here does."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("_mpnanny_untrained", os.path.join(_FOLDER, "untrained.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_the_next() -> None:
    """The sitecustomize that this one hides. Its errors are its own, as ever."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "MPNANNY_RUN" in os.environ:
    try:
        atexit.register(_at_exit, time.time(), _working_folder())
        _hook()
    except Exception as error:
        _say(error)
_run_the_next()
