"""A fork of the server is what a real interpreter would be: the same output, the same end."""

from __future__ import annotations

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from forked_python import forked_python

HERE = pathlib.Path(__file__).parent
IS_WARM = "import sys; print('torch' in sys.modules)"


def run(
    python: list[str], *words: str, folder: pathlib.Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        input="typed\n",
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)),
    )


PROGRAMS = {
    "arguments, streams": "print(sys.argv, input(), sys.stdin.read()); print('x', file=sys.stderr)",
    "places": "print(sys.path, os.getcwd(), __name__, globals().get('__file__'), __spec__)",
    "environment": "print(sorted(os.environ.items()), os.popen('echo $GIVEN').read())",
    "limits": "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE), os.umask(0))",
    "a module of its own": "import beside, __main__ as m; print(beside.NAME, vars(m) is globals())",
    "a code": "sys.exit(7)",
    "a negative code": "sys.exit(-1)",
    "words": "sys.exit('stopped')",
    "an exception": "def f(): return {}['absent']\nf()",
    "one that another caused": "try: 1 / 0\nexcept Exception as e: raise KeyError(1) from e",
    "no Python": "def f(:",
    "a hook of its own": "sys.excepthook = lambda *e: print(e, sys.last_value is e[1])\n1 / 0",
    "interrupted": "raise KeyboardInterrupt",
    "killed": "print('lost', end=''); os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "print('told', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "aborted": "os.abort()",
    "at its end": "import atexit; atexit.register(print, 'end')\nprint('body', end='')",
    "an error at its end": "import atexit; atexit.register(lambda: 1 / 0)",
    "a thread that goes on": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()",
    "a fork": "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')",
    "a worker": "import multiprocessing as m\n"
    "if __name__ == '__main__': print(m.get_context('spawn').Pool(1).map(abs, [-1]))",
    "a training": "import random, torch; random.seed(1); torch.manual_seed(1)\n"
    "w = torch.rand(2, requires_grad=True); (w * random.random()).sum().backward()\n"
    "torch.optim.SGD([w], lr=0.1).step()\n"
    "print(w, torch.compile(lambda x: x.sin() + 1, backend='eager')(w))",
}
HEAD = "import os, signal, sys\n"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("as_text", [False, True], ids=["file", "text"])
def test_it_is_as_a_real_one(tmp_path, name, as_text):
    (tmp_path / "beside.py").write_text("NAME = __name__\n")
    (tmp_path / "program.py").write_text(HEAD + PROGRAMS[name])
    words = ["-c", HEAD + PROGRAMS[name]] if as_text else ["./program.py"]
    real, forked = (
        run(python, *words, "--one", folder=tmp_path, GIVEN="a value")
        for python in ([sys.executable], forked_python())
    )
    assert _told(forked) == _told(real)


def _told(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    places = "0x[0-9a-f]+"
    return done.returncode, re.sub(places, "", done.stdout), re.sub(places, "", done.stderr)


def test_torch_is_there_and_nothing_of_ours(tmp_path):
    program = "import sys; print([name in sys.modules for name in ('torch', 'mpnanny')])"
    done = run(forked_python(), "-c", program, folder=tmp_path)
    assert (done.stdout, done.stderr) == ("[True, False]\n", "")


def test_what_is_drawn_without_a_seed_is_another_figure_each_time(tmp_path):
    program = "import numpy, random, torch\n"
    program += "print(random.random(), numpy.random.rand(), torch.rand(()).item())"
    drawn = [run(forked_python(), "-c", program, folder=tmp_path).stdout.split() for _ in range(2)]
    assert len(drawn[0]) == 3 and set(drawn[0]).isdisjoint(drawn[1])


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["-W", "ignore", "-c", IS_WARM], {}),
        (["-c", IS_WARM], {"OMP_NUM_THREADS": "2"}),
        (["-c", IS_WARM], {"PYTHONHASHSEED": "1"}),
    ],
)
def test_what_the_start_alone_can_give_gets_a_real_one(tmp_path, words, environment):
    done = run(forked_python(), *words, folder=tmp_path, **environment)
    assert (done.returncode, done.stdout) == (0, "False\n")


def test_modules_come_from_the_path_of_the_one_that_asks(tmp_path):
    """A copy of the package that a mutation has changed, say."""
    (tmp_path / "mpnanny").mkdir()
    (tmp_path / "mpnanny" / "__init__.py").write_text("CHANGED = 1")
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'yes'")
    program = "import os, mpnanny; print(mpnanny.CHANGED, os.environ['SEEN'])"
    done = run(forked_python(), "-c", program, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("1 yes\n", "")


def test_the_command_of_mpnanny_run_is_known_as_such(tmp_path):
    """By its process: a program that trains nothing leaves a record where it is the command."""
    program = "import os; print(os.environ['MPNANNY_RUN_PROCESS'] == str(os.getpid()))"
    asks = "import os, sys; os.environ['MPNANNY_RUN_PROCESS'] = str(os.getpid());"
    asks += "os.execv(sys.argv[1], sys.argv[1:])"
    done = run([sys.executable, "-c", asks, *forked_python()], "-c", program, folder=tmp_path)
    assert done.stdout == "True\n"


SLEEPS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print(os.getpid(), flush=True)
time.sleep(100)
"""


def test_signals_reach_it():
    with subprocess.Popen([*forked_python(), "-c", SLEEPS], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.terminate()
        assert process.wait(30) == 3


@pytest.mark.parametrize("what", ["client", "tests"])
def test_it_does_not_outlive_the_one_that_is_killed(what):
    starts = f"""if True:
        import subprocess, sys
        sys.path.insert(0, {str(HERE)!r})
        from forked_python import forked_python
        process = subprocess.Popen([*forked_python(), "-c", {SLEEPS!r}])
        print(process.pid, flush=True)
        process.wait()
    """
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE) as tests:
        client, process = (int(tests.stdout.readline()) for _ in range(2))
        os.kill(client if what == "client" else tests.pid, signal.SIGKILL)
        patience = time.monotonic() + 60
        while _is_there(process) and time.monotonic() < patience:
            time.sleep(0.02)
        assert not _is_there(process)


def _is_there(process: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
