"""The tool "auto_diff" from outside: `mpnanny diff` and `mpnanny call`, with code that behaves and
code that does not. Whatever the code does, one clear answer or error comes, and nothing is left.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE.parent.parent / "build" / "release" / "bin" / "mpnanny"
# The interpreter by a path that nobody else uses: other suites run code at the same time, and their
# processes are not ours.
OWN = tempfile.TemporaryDirectory(prefix="mpnanny-diff-")
PYTHON = f"{OWN.name}/venv/bin/{pathlib.Path(sys.executable).name}"
os.symlink(sys.prefix, f"{OWN.name}/venv")


def diff(*words, timeout=60):
    """Exit code, stdout, stderr."""
    done = subprocess.run(
        [PROGRAM, "diff", *words, "--python", PYTHON],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def processes_left():
    """Of those that these tests have run code in."""
    found = []
    for each in pathlib.Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if OWN.name in (each / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(each.name))
            except OSError:
                continue
    return found


def test_an_operator_at_fault_is_shown_with_its_line():
    code, out, err = diff(
        *("--function", f"{HERE / 'planted.py'}:softmax_by_hand", "--policy", "pure"),
        *("--input", "float32[4,64]~normal(0,8)", "--dtype", "fp16"),
    )
    assert (code, err) == (1, "")
    assert out.startswith("planted.py:softmax_by_hand in FP16 under pure (emulated): broken.")
    assert "float16 exponential at" in out and "Inf or NaN in 7 % of the elements" in out


def test_what_is_clean_ends_with_0_and_json_has_all():
    code, out, _ = diff(
        *("--code", "y = (x.cuda().half() ** 2).sum(-1)\ny", "--format", "json"),
        *("--input", "x=float32[8,4096]~normal(0,300)", "--dtype", "fp16"),
    )
    answer = json.loads(out)
    assert code == 0 and answer["verdict"] == "clean"  # pow runs in FP32 under CUDA's autocast
    assert answer["mode"] == "emulated" and answer["operators"] > 1
    assert answer["output"][0]["dtype"] == "float32"
    assert answer["limits"] == []  # tests/sandbox has what a weaker kernel's says


HOSTILE = {
    "endless loop": ("while True: pass", "ran longer than 4 s"),
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "more than (64 processes|1500 MB)",
    ),
    "too much memory": (
        "x = [bytearray(1 << 28)]\nwhile True: x.append(bytearray(1 << 28))",
        "more than 1500 MB|MemoryError",
    ),
    "100 GB": ("x = torch.zeros(100 << 30, dtype=torch.uint8)", "can't allocate memory"),
    "an exit": ("import os\nos._exit(3)", "exit code 3"),
    "a quiet exit": ("import os\nos._exit(0)", "exit code 0"),
    "sys.exit": ("import sys\nsys.exit('enough')", "exit code 1.*enough|SystemExit"),
    "a crash": ("import ctypes\nctypes.string_at(0)", "signal 11"),
    "writing outside": ("open('/tmp/of-a-target', 'w')", "PermissionError|Read-only file system"),
    "removing": (
        f"import os\nos.remove({str(HERE / 'tool_test.py')!r})",
        "PermissionError|Read-only file system",
    ),
    "network": ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "PermissionError"),
    "deep recursion": ("def f(): f()\nf()\n1", "RecursionError"),
    "a garbled answer": ("import os\nos.write(3, b'not json\\n')\nos._exit(0)", "makes no sense"),
    "half an answer": ("import os\nos.write(3, b'{\"answer\": {')\nos._exit(0)", "makes no sense"),
    "a huge answer": (
        "import os\nwhile True: os.write(3, b'x' * (1 << 20))",
        "makes no sense",
    ),
    "a forged answer": (
        "import json, os\n"
        "os.write(3, json.dumps({'answer': {'verdict': 'clean'}}).encode() + b'\\n')\n"
        'os.write(3, b\'{"end": {"exit_code": 0, "missing": []}}\\n\')\nos._exit(0)',
        "makes no sense",
    ),
    "an answer that is not the only word": (
        "import os\nos.write(3, b'{}\\n')\n1.0",
        "makes no sense",
    ),
    "a closed descriptor": (
        "import os\nos.close(3)\nx = torch.ones(2)\nx",
        "before it had an answer",
    ),
    "much output": ("for i in range(1 << 17): print('x' * 200)\n1 / 0", "ZeroDivisionError"),
    "a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(123)\n    os._exit(0)\n1 / 0",
        "ZeroDivisionError",
    ),
    "ignored signals": (
        "import signal as s\nfor each in (s.SIGTERM, s.SIGINT): s.signal(each, s.SIG_IGN)\n"
        "while True: pass",
        "ran longer than 4 s",
    ),
    "a syntax error": ("def f(x: return", "no valid Python"),
    "a missing package": ("import apex_of_nobody", "No module named"),
    "nothing to compare": ("'text'", "gives neither a tensor nor a number"),
}


@pytest.fixture(scope="module")
def not_confined():
    """What this machine's kernel cannot keep code from."""
    _, out, _ = diff("--code", "torch.ones(2)", "--format", "json")
    limits = json.loads(out)["limits"]
    return {each.partition(":")[2] for each in limits if each.startswith("not_confined:")}


# What has to be confined for the code to fail as it should.
NEEDS = {"writing outside": "writing", "removing": "writing", "network": "network"}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_the_code_does_one_clear_error_comes(name, not_confined):
    if NEEDS.get(name) in not_confined:
        pytest.skip(f"this kernel does not confine {NEEDS[name]}")
    words, what = HOSTILE[name]
    # Only what never ends by itself is given a short time: a busy machine takes seconds to start.
    limit = 4 if "longer than 4 s" in what else 60
    began = time.monotonic()
    code, out, err = diff("--code", words, "--timeout-s", str(limit), "--memory-mb", "1500")
    assert code not in (0, 1) and out == ""
    assert re.search(what, err, re.DOTALL), err
    assert len(err) < 4000 and err.startswith("mpnanny diff: ")
    assert time.monotonic() - began < limit + 30
    assert not os.path.exists("/tmp/of-a-target")
    assert processes_left() == []


def test_an_interpreter_without_torch_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec /usr/bin/env -i " + sys.executable + ' -I -S "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        [PROGRAM, "diff", "--code", "1", "--python", python],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "has no torch" in done.stderr
    done = subprocess.run(
        [PROGRAM, "diff", "--code", "1", "--python", "/nowhere/python"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "There is no program /nowhere/python" in done.stderr


def test_a_server_that_may_not_run_code_says_how_to_allow_it():
    done = subprocess.run(
        [PROGRAM, "call", "auto_diff", "--args", json.dumps({"code": "torch.ones(2)"})],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert '"args": ["serve", "--root", ' in said.replace('\\"', '"').replace(",", ", ").replace(
        ",  ", ", "
    )
    assert "--allow-exec" in said and "--python" in said


def test_several_inputs_stand_behind_one_option(tmp_path):
    (tmp_path / "sums.py").write_text("def add(a, b, c=0.0):\n    return (a + b * c).exp()\n")
    words = ("--function", f"{tmp_path}/sums.py:add", "--dtype", "fp16", "--policy", "pure")
    inputs = ("--input", "float32[4]~ones", "float32[4]~ones", "c=20.0")
    code, out, err = diff(*words, *inputs, "--no-backward")
    assert (code, err) == (1, "")
    assert "exponential at sums.py:2" in out
    apart = [each for word in inputs[1:] for each in ("--input", word)]
    assert diff(*words, *apart, "--no-backward")[1].splitlines()[0] == out.splitlines()[0]


def test_what_ended_without_an_answer_is_said_with_how(tmp_path):
    (tmp_path / "ends.py").write_text("import os\n\n\ndef end(x):\n    os._exit(7)\n")
    code, _, err = diff("--function", f"{tmp_path}/ends.py:end", "--input", "float32[4]")
    assert code == 2 and "exit code 7" in err


def test_tokens_do_not_reach_the_code():
    os.environ["HF_TOKEN"] = "secret"
    try:
        _, _, err = diff("--code", "import os\nraise ValueError(sorted(os.environ))")
    finally:
        del os.environ["HF_TOKEN"]
    assert "ValueError" in err and "PATH" in err and "HF_TOKEN" not in err


def test_two_captures(tmp_path):
    import torch
    from mpnanny.diff import capture

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    x = torch.randn(5, 8)
    capture(model, x, str(tmp_path / "a.safetensors"))
    with torch.no_grad():
        model[2].weight.mul_(3)
    capture(model, x, str(tmp_path / "b.safetensors"))
    code, out, _ = diff(
        *("--captures", tmp_path / "a.safetensors", "--captures", tmp_path / "b.safetensors"),
        *("--format", "json"),
    )
    answer = json.loads(out)
    assert code == 1 and answer["verdict"] == "degraded"
    assert answer["first_bad"]["module"] == "2"
    assert [each["module"] for each in answer["layers"]] == ["0", "1", "2", "(model)"]
    assert answer["layers"][0]["accumulated"] == 0


class Server:
    """`mpnanny serve --allow-exec`, spoken to line by line."""

    def __init__(self, root):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--allow-exec", "--root", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.send(
            "initialize",
            1,
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        assert "result" in self.answer(1)
        self.send("notifications/initialized")

    def send(self, method, number=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self, number):
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == number:
                return message

    def call(self, number, **arguments):
        arguments.setdefault("python", PYTHON)
        self.send("tools/call", number, name="auto_diff", arguments=arguments)


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.process.stdin.close()
    made.process.wait(20)


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_over_mcp_the_answer_is_structured_and_the_server_goes_on(server):
    server.call(2, code="import os\nos._exit(4)")
    failed = server.answer(2)["result"]
    assert failed["isError"] and "exit code 4" in failed["content"][0]["text"]
    server.call(3, code="y = x.exp()\ny", input=["x=float16[4]~constant(12)"], dtype="fp16")
    clean = server.answer(3)["result"]
    assert clean["structuredContent"]["verdict"] == "clean"  # exp runs in FP32 on CUDA
    server.call(4, function="../outside.py:f")
    assert server.answer(4)["result"]["isError"]


def test_a_cancelled_call_leaves_no_process(server):
    server.call(2, code="while True: pass")
    wait_for(processes_left)
    server.send("notifications/cancelled", requestId=2, reason="no longer wanted")
    wait_for(lambda: not processes_left())
    server.send("ping", 3)
    assert "result" in server.answer(3)


def test_a_server_that_is_killed_leaves_no_process(server):
    server.call(2, code="while True: pass")
    wait_for(processes_left)
    server.process.kill()
    wait_for(lambda: not processes_left())
