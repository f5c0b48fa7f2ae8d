"""Runs each program that is named in a forked process of its own, so that torch is imported once.

    python serve.py FOLDER PROGRAM…

What PROGRAM prints comes into FOLDER/PROGRAM.out; under `mpnanny run` its record into
FOLDER/PROGRAM.db.
"""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import runpy
import sys
import traceback

import torch
import torch._dynamo  # as every optimizer does; once for all

HERE = pathlib.Path(__file__).parent


def _run(folder: str, program: str) -> None:
    output = os.open(f"{folder}/{program}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if "MPNANNY_RUN" in os.environ:
        options = json.loads(os.environ["MPNANNY_RUN"])
        os.environ["MPNANNY_RUN"] = json.dumps({**options, "db": f"{folder}/{program}.db"})
        os.environ["MPNANNY_RUN_PROCESS"] = str(os.getpid())
        sys.modules["mpnanny.monitor.launched"].torch_imported()
    sys.argv = [str(HERE / f"{program}.py")]
    code = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except Exception:
        traceback.print_exc()
    atexit._run_exitfuncs()
    os._exit(code)  # without taking torch down, which takes as long as the training


def main() -> None:
    torch.set_num_threads(1)
    for program in sys.argv[2:]:
        child = os.fork()
        if not child:
            _run(sys.argv[1], program)
        if os.waitpid(child, 0)[1]:
            print(f"{program} failed", flush=True)


main()
