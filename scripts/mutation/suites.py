"""Which tests belong to a file: the one place that says so.

Those of its area, by the tables below. Where the area has a file of tests that is named after the
file, as schedule_test.py is after schedule.py, that one has to hold it by itself (in C++ together
with those that go on from it: growth_test.cc, growth_more_test.cc).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

# Folder -> the test program of its area; the longest that fits counts.
PROGRAMS = {
    "base": "base_test",
    "monitor/core": "monitor_core_test",
    "monitor/core/device": "device_test",
    "numerics": "numerics_test",
    "server": "server_test",
    "server/command_line": "command_line_test",
    "server/http": "http_test",
    "server/transport/http": "http_test",
    "tools": "call_test",
    "engines/cases": "cases_test",
    "engines/comparison": "runs_test",
    "engines/diagnosis": "runs_test",
    "engines/judgement": "judgement_test",
    "tools/list_runs": "runs_test",
    "engines/export": "runs_test",
    "engines/pack": "runs_test",
    "engines/pictures": "pictures_test",
    "tools/query_alerts": "runs_test",
    "tools/query_stats": "runs_test",
    "engines/diagnosis/summary": "runs_test",
    "engines/runs": "runs_test",
    "tools/search_knowledge": "search_knowledge_test",
    "engines/check": "static_check_test",
    "engines/tensors": "tensor_files_test",
}
# Folder -> the pytest folder of its area.
FOLDERS = {
    "monitor/python/mpnanny": "tests/monitor",
    "monitor/python/mpnanny/diff": "tests/auto_diff",
    "monitor/python/mpnanny/fp64": "tests/shadow",
    "monitor/python/mpnanny/guard": "tests/guard",
    "monitor/python/mpnanny/precision": "tests/precision",
    "monitor/python/mpnanny/programs": "tests/auto_diff",
    "monitor/python/mpnanny/relations": "tests/shadow",
    "monitor/python/mpnanny/shadow": "tests/shadow",
}


def tests_of(path: str) -> str | None:
    """The program, or the pytest folder or file, for a file relative to the repository."""
    is_python = path.endswith(".py")
    table = FOLDERS if is_python else PROGRAMS
    folders = [folder.as_posix() for folder in PurePosixPath(path).parents]
    tests = next((table[folder] for folder in folders if folder in table), None)
    if tests is None or not is_python:
        return tests
    own = f"{tests}/{PurePosixPath(path).stem}_test.py"
    return own if (ROOT / own).exists() else tests


def suites_of(path: str, program: str) -> list[str]:
    """The test suites of the program that are the file's own; empty: all have to do."""
    area = ROOT / "tests" / program.removesuffix("_test")
    stem = PurePosixPath(path).stem
    own = [area / f"{stem}_test.cc", *sorted(area.glob(f"{stem}_*_test.cc"))]
    if not own[0].exists():
        return []
    text = "\n".join(file.read_text() for file in own)
    found = re.findall(r"^TEST(?:_F|_P)?\((\w+),", text, re.M)
    return list(dict.fromkeys(found))
