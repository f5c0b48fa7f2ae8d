"""What comes from the process that ran the code is not believed because it comes: a program that
says whatever it likes takes the place of the Python, and gets no verdict unless it says exactly
what a Python of ours would have said, which is then marked as coming from there.
"""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from confined import HERE, PYTHON, SANDBOX

PROGRAM = SANDBOX.parent / "mpnanny"
GOOD = {"verdict": "clean", "target": "f", "dtype": "fp16", "policy": "pure", "limits": []}

# It has the request, so the token, too: code that looks for it finds it.
FORGER = f"""#!/usr/bin/python3 -IS
import json, os, signal, sys, time
token = json.load(sys.stdin)["token"]
GOOD = {GOOD!r}
def raw(what): os.write(3, what)
def line(**said): raw(json.dumps({{"token": token, **said}}).encode() + b"\\n")
def answer(**fields): line(answer={{**GOOD, **fields}})
"""

FORGERIES = {
    "nothing": ("", "exit code 0 before it had an answer"),
    "an answer without the token": (
        'raw(json.dumps({"answer": GOOD}).encode() + b"\\n")',
        "makes no sense.*somebody else",
    ),
    "an answer with another token": (
        'token = "0" * 32; answer()',
        "makes no sense.*somebody else",
    ),
    "an error without the token": (
        'raw(b\'{"error": {"message": "all is well"}}\\n\')',
        "makes no sense.*somebody else",
    ),
    "an end": ('raw(b\'{"end": {"exit_code": 0}}\\n\')', "makes no sense"),
    "an end with the token": ("line(end={'exit_code': 0})", "makes no sense.*unknown kind"),
    "an answer and an end": (
        'answer(); raw(b\'{"end": {"exit_code": 0, "missing": []}}\\n\')',
        "goes on after its answer",
    ),
    "an end, then an answer": (
        'raw(b\'\\n\\n{"end": {"exit_code": 0}}\\n\'); answer()',
        "makes no sense",
    ),
    "an end and a crash": (
        'answer(); raw(b\'{"end": {"exit_code": 0}}\\n\'); os.kill(os.getpid(), 11)',
        "signal 11",
    ),
    "two answers": ("answer(); answer()", "goes on after its answer"),
    "two answers that differ": ("answer(); answer(verdict='broken')", "goes on after its answer"),
    "an answer and an error": ("answer(); line(error={})", "goes on after its answer"),
    "an error and an answer": (
        "line(error={'message': 'x'}); answer()",
        "goes on after its answer",
    ),
    "rows after the answer": ("answer(); raw(b'1,2,3\\n')", "goes on after its answer"),
    "progress after the answer": (
        "answer(); line(progress={'done': 1, 'what': 'x'})",
        "goes on after its answer",
    ),
    "half a line after the answer": ("answer(); raw(b'x')", "goes on after its answer"),
    "an answer and a bad end": ("answer(); os._exit(3)", "exit code 3"),
    "an answer and a signal": ("answer(); os.kill(os.getpid(), 9)", "signal 9"),
    "an answer and no end": ("answer(); time.sleep(60)", "ran longer than 3 s"),
    "an answer and too much memory": (
        "answer(); x = bytearray(os.urandom(1) * (800 << 20)); time.sleep(9)",
        "more than 400 MB|exit code 1",
    ),
    "two fields": ("line(answer=GOOD, error={})", "unknown form"),
    "an answer that is a list": ("line(answer=[GOOD])", "unknown form"),
    "an answer that is a text": ("line(answer='clean')", "unknown form"),
    "a field that nobody knows": ("line(verdict={})", "unknown kind"),
    "two objects on a line": (
        "one = json.dumps({'token': token, 'answer': GOOD}).encode(); raw(one + one + b'\\n')",
        "no JSON object",
    ),
    "a list": ("raw(b'[1, 2]\\n')", "no JSON object"),
    "binary": ("raw(bytes(range(256)) * 9 + b'\\n')", "no JSON object"),
    "bytes that are no UTF-8": (
        "raw(json.dumps({'token': token, 'answer': GOOD}).encode().replace(b'f\"', b'\\xff\"')"
        " + b'\\n')",
        "no JSON object",
    ),
    "one key twice": (
        'raw((\'{"token": "%s", "answer": {"verdict": "broken", "verdict": "clean"}}\' % token)'
        ".encode() + b'\\n')",
        "no JSON object",
    ),
    "the token twice": (
        'raw((\'{"token": "x", "token": "%s", "answer": {"verdict": "clean"}}\' % token)'
        ".encode() + b'\\n')",
        "no JSON object",
    ),
    "deep JSON": ("answer(inputs=json.loads('[' * 400 + ']' * 400))", "no JSON object"),
    "numbers that JSON has not": ("answer(inputs=[{'x': float('nan')}])", "no JSON object"),
    "a giant text": ("answer(target='x' * 100_000)", "a text has 100000 bytes"),
    "a giant list": ("answer(limits=['x'] * 300_000)", "a list has 300000 items"),
    "a giant object": (
        "answer(proof={str(i): 1 for i in range(3000)})",
        "an object has 3000 fields",
    ),
    "a giant line": ("answer(target='x' * (17 << 20))", "longer than 16 MB"),
    "lines without an end": (
        "b = b'x' * (1 << 16)\nwhile True: raw(b)",
        "longer than 16 MB",
    ),
    "a name of control characters": ("answer(**{'a\\x1b[31m': 1})", "no proper name"),
    "no verdict": ("line(answer={'target': 'f'})", "`verdict` is missing"),
    "a verdict that nobody knows": ("answer(verdict='great')", "`verdict` must be one of"),
    "a verdict that is a number": ("answer(verdict=5)", "verdict"),
    "an answer from a process that stays": (
        "if os.fork() == 0:\n    os.setsid(); time.sleep(0.5); answer(); os._exit(0)",
        "exit code 0 before it had an answer",
    ),
    "a process that writes for ever": (
        "if os.fork() == 0:\n    os.setsid()\n    while True: raw(b'x' * 100 + b'\\n')\n"
        "time.sleep(0.2)",
        "makes no sense",
    ),
}
# A field of an answer, with a value that is none of its.
WRONG_TYPES = {
    "limits": ["x", {}, [1], [["x"]], 5],
    "target": [5, [], {}],
    "findings": [3, [1], [[]], {"0": 1}, [{"op": 5}], [{"share": "much"}]],
    "first_bad": ["x", 5, [], {"op": 5}, {"module": []}, {"source": {}}, {"local": "zz"}],
    "cure": [5, [], {"lines": "x"}, {"error_before": {}}],
    "keep_fp32": ["x", {"a": 1}, [1]],
    "output": [5, [5], ["x"], {"a": 1}, [{"name": 5}], [{"error": "small"}]],
    "layers": [[1], [{"module": []}], [{"absmax": "x"}]],
    "loss": [[1], 5, {"low": "x"}],
    "gradients": [5, {"worst": [5]}, {"worst": "x"}, {"error": []}],
    "steps": [{"a": 2}, [5], [{"low": "x"}]],
    "dims": [5, [5]],
    "contributors": ["x", ["x"], [{"op": 1}]],
    "ill_conditioned": [[1], [{"error": "x"}]],
    "proof": ["x", {}, {"result": "confirmed"}, {"line": "x", "result": "perhaps"}],
    "emulated": [3, [3]],
    "mode": ["x", 5],
    "inputs": [5, [5]],
}


class Forged:
    def __init__(self, folder) -> None:
        self.python = folder / "python"

    def run(self, code: str, *words: str, before: list[str] | None = None):
        self.python.write_text(FORGER + code + "\n")
        self.python.chmod(0o755)
        return subprocess.run(
            [*(before or []), PROGRAM, "diff", "--code", "1", "--python", self.python]
            + ["--timeout-s", "3", "--memory-mb", "400", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def forged(tmp_path):
    return Forged(tmp_path)


def is_refused(done, pattern: str) -> None:
    assert done.returncode not in (0, 1) and done.stdout == "", done
    assert done.stderr.startswith("mpnanny diff: ") and len(done.stderr) < 4000
    assert re.search(pattern, done.stderr, re.DOTALL), done.stderr


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_answer_is_no_verdict(forged, name):
    code, pattern = FORGERIES[name]
    is_refused(forged.run(code), pattern)


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_an_answer_has_the_types_of_its_schema(forged, field):
    for value in WRONG_TYPES[field]:
        is_refused(forged.run(f"answer(**{{{field!r}: {value!r}}})"), f"makes no sense.*{field}")


def test_what_a_python_of_ours_could_have_said_is_marked_as_its_word(forged):
    done = forged.run("answer()", "--format", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["verdict"] == "clean", done
    assert answer["computed_by"] == "the process that ran the code" and answer["limits"] == []
    assert "only as trustworthy as that code" in forged.run("answer()").stdout


def test_what_an_answer_holds_is_safe_to_show(forged):
    words = "\\x1b[31m\\u202e\\x00 </script>"
    for options in ([], ["--format", "json"]):
        done = forged.run(f"answer(target='{words}', keep_fp32=['{words}'])", *options)
        assert done.returncode == 0, done
        assert not set("\x1b\x00\u202e") & set(done.stdout)


def test_what_the_code_is_not_kept_from_is_in_the_answer_and_in_errors(forged):
    """By default it is not run."""
    before = [*PYTHON, str(HERE / "without.py"), "namespaces", "--"]
    is_refused(forged.run("answer()", before=before), "was not run.*--allow-weaker-sandbox")
    leave = "--allow-weaker-sandbox"
    done = forged.run("answer()", leave, "--format", "json", before=before)
    limits = json.loads(done.stdout)["limits"]
    assert limits == ["not_confined:processes", "not_confined:devices", "not_confined:memory"]
    assert "could not keep the code from" in forged.run("answer()", leave, before=before).stdout
    failed = forged.run("os._exit(4)", leave, before=before)
    is_refused(failed, "exit code 4.*This machine lacks")
