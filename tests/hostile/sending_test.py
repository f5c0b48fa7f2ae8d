"""Nothing is sent: no tool opens a socket, nor does a program that it starts."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
from conftest import PROGRAM, Server, record

# In place of the C library's: leaves a trace and goes on.
WITNESS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int socket(int family, int type, int protocol) {
  const int trace = open(getenv("TRACE_OF_SOCKETS"), O_WRONLY | O_CREAT, 0600);
  if (trace >= 0) close(trace);
  return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(family, type, protocol);
}
"""


@pytest.fixture
def witness(tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment of a process whose sockets leave a trace."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "witness.c").write_text(WITNESS)
    library = tmp_path / "witness.so"
    words = [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "witness.c", "-ldl"]
    subprocess.run(words, check=True)
    return {"LD_PRELOAD": str(library), "TRACE_OF_SOCKETS": str(tmp_path / "trace")}


def test_no_tool_opens_a_socket(
    root: pathlib.Path, tmp_path: pathlib.Path, witness: dict[str, str]
) -> None:
    record(root / "metrics.db").close()
    (root / "a.py").write_text("import torch\n")
    (root / "run.log").write_text("step 1 loss 2.0\nstep 2 loss nan\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    with Server(root, **witness) as server:
        for tool, arguments in (
            ("list_runs", {"path": "."}),
            ("run_summary", {"run": "metrics.db"}),
            ("query_alerts", {"run": "metrics.db"}),
            ("query_stats", {"run": "metrics.db", "metric": "loss"}),
            ("diagnose_run", {"run": "metrics.db"}),
            ("diagnose_run", {"log_path": "run.log"}),
            ("compare_runs", {"a": "metrics.db", "b": "metrics.db"}),
            ("choose_precision", {"run": "metrics.db"}),
            ("static_check", {"paths": ["."], "diff": "HEAD"}),
            ("search_knowledge", {"query": "loss scale"}),
            ("analyze_tensor", {"path": "a.py"}),
            ("auto_diff", {"code": "1 + 1"}),
        ):
            server.call(tool, **arguments)
            assert not (tmp_path / "trace").exists(), f"{tool} opened a socket"


def test_the_witness_sees_a_socket(tmp_path: pathlib.Path, witness: dict[str, str]) -> None:
    words = [str(PROGRAM), "serve", "--http", "127.0.0.1:0", "--root", str(tmp_path)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env=witness)
    assert process.stderr is not None and process.stderr.readline().startswith(b"listening")
    process.terminate()
    process.wait(20)
    process.stderr.close()
    assert (tmp_path / "trace").exists()
