"""The record of a program under `mpnanny run` that has not imported torch: sitecustomize.py loads
this at the program's end. The package mpnanny would import torch; of it only the extension is used.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import sys
import time
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from typing import Any

_COARSE = 0.02  # seconds that a file's time may be behind the clock

_NOTE = "nothing was watched: torch was not imported"


def options() -> dict[str, Any]:
    """Those of `mpnanny run`."""
    found: dict[str, Any] = json.loads(os.environ.get("MPNANNY_RUN", "{}"))
    return {"db": "nanny_logs/metrics.db", **found}


def script_name(folder: str) -> str:
    """As environment.run_name(); at the end of a program its module no longer tells. `folder`:
    where the program was started.
    """
    script = sys.argv[0] if sys.argv else ""
    script = "interactive" if script in ("", "-c") else os.path.splitext(script)[0]
    place = os.path.normpath(os.path.join(folder, script))
    return "/".join(
        filter(None, (os.path.basename(os.path.dirname(place)), os.path.basename(place)))
    )


def is_recorded(db: str, began: float) -> bool:
    """Whether something was recorded into `db`, or as a rank of it, since `began`."""
    stem = os.path.splitext(db)[0]
    files = glob.glob(glob.escape(stem) + "[.-]*")
    return any(os.path.getmtime(file) >= began - _COARSE for file in files)


def record(options: dict[str, Any], package: str, name: str) -> None:
    """A run without steps, and one line on stderr. `package`: the folder mpnanny."""
    core = _load(package)
    name = "" if options.get("record") == "minimal" else name
    recorder = core.Recorder(
        options["db"],
        options.get("name") or name,
        0,
        1,
        time.time(),
        options.get("precision", "auto"),
        options.get("trace_interval", 100),
        json.dumps({"python": platform.python_version()}),
        options.get("dense_steps", 50),
        options.get("max_db_mb", 2048),
    )
    recorder.set_notes(json.dumps([_NOTE]))
    recorder.close("closed")
    if not options.get("quiet"):
        sys.stderr.write(f"mpnanny: {_NOTE}; recorded into {options['db']}\n")


def _load(package: str) -> Any:
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(package, f"_core{suffix}")
        if os.path.exists(path):
            spec = spec_from_file_location("mpnanny._core", path)
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError("the extension is not there")
