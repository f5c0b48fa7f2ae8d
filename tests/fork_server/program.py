"""What a fork of the server does to be the process of one program: `python program.py arguments` or
`python -c code arguments`, as an interpreter does them from its start to its end.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import importlib
import os
import resource
import signal
import site
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, NoReturn

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
HERE = os.path.dirname(__file__)
PLACES = sys.path[1:]  # without this folder


def become(request: dict[str, Any]) -> None:
    """Makes this process the one that is asked for, up to its first line."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    os.setpgid(0, 0)
    os.umask(request["umask"])
    os.chdir(request["folder"])
    _take_environment(request)
    words = request["arguments"]
    is_text = words[0] == "-c"
    sys.argv = ["-c", *words[2:]] if is_text else list(words)
    sys.orig_argv = [sys.executable, *words]
    before = os.environ.get("PYTHONPATH", "")
    sys.path[:] = [*(each for each in before.split(os.pathsep) if each), *PLACES]
    importlib.invalidate_caches()
    for limit, values in request["limits"].items():
        resource.setrlimit(int(limit), values)
    main = ModuleType("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    sys.modules.pop("sitecustomize", None)
    site.execsitecustomize()
    sys.path.insert(0, "" if is_text else os.path.dirname(os.path.realpath(words[0])))
    if not is_text:
        main.__file__ = _file(words)
        main.__cached__ = None  # type: ignore[attr-defined]
        main.__loader__ = SourceFileLoader("__main__", main.__file__)


def _take_environment(request: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.get("MPNANNY_RUN_PROCESS") == str(request["pid"]):
        os.environ["MPNANNY_RUN_PROCESS"] = str(os.getpid())  # as the one that it stands for
    time.tzset()
    tempfile.tempdir = None
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    # Python's own random sees by itself that a process was forked.
    sys.modules["torch"].default_generator.seed()  # type: ignore[attr-defined]
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # type: ignore[attr-defined]


def code(request: dict[str, Any]) -> CodeType:
    """Of the program that is asked for."""
    words = request["arguments"]
    if words[0] == "-c":
        return compile(words[1], "<string>", "exec", dont_inherit=True)
    with open(_file(words), "rb") as file:
        return compile(file.read(), file.name, "exec", dont_inherit=True)


def _file(words: list[str]) -> str:
    """The program's, under the name that an interpreter gives it."""
    return os.path.join(os.getcwd(), words[0])


def end(run: Callable[[], None]) -> NoReturn:
    """Runs the program and ends the process as it would end, but for the taking down of what was
    imported, which takes as long as its import.
    """
    code = 0
    interrupted = False
    try:
        run()
    except SystemExit as error:
        code = _exit_code(error.code)
    except BaseException as error:
        code = 1
        interrupted = isinstance(error, KeyboardInterrupt)
        _report(error)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 120
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def _exit_code(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    print(value, file=sys.stderr)
    return 1


def _report(error: BaseException) -> None:
    """As the interpreter does: the frames of the server are none of the program's."""
    trace = error.__traceback__
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == HERE:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.excepthook(type(error), error, trace)
