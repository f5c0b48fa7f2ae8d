"""scripts/mutate on files of its own: which changes it makes, and what it says of their tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from mutation import cpp_places, python_places, suites  # noqa: E402
from mutation.mutant import drawn  # noqa: E402

# `most` is held by no test: whether the bound itself is too many is asked by none.
PYTHON = """
def over(count, most):
    "Is count > most?"
    return count > most
"""
PYTHON_TEST = """
from tiny import over

def test_what_is_over_is_over():
    assert over(7, 5) and not over(3, 5)
"""
CPP = """\
#include "over.h"
// Is count > most?
bool Over(int count, int most) { return count > most; }
"""
CPP_TEST = """\
#include "over.h"
int main() { return Over(7, 5) && !Over(3, 5) && Name() == 'n' ? 0 : 1; }
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(tiny CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
add_library(tiny STATIC over.cc name.cc)
target_include_directories(tiny PUBLIC "${CMAKE_SOURCE_DIR}")
set_target_properties(tiny PROPERTIES UNITY_BUILD ${TOGETHER})
add_executable(tiny_test test.cc)
target_link_libraries(tiny_test PRIVATE tiny)
"""


def changes(places, text: str) -> set[str]:
    """Every changed text of a source of one line."""
    text = textwrap.dedent(text)
    return {mutant.apply(text).strip() for mutant in places.mutants_of(text)}


def mutate(*words: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "mutate", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def python_project(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "build" / "release").mkdir(parents=True)
    (tmp_path / "source" / "tiny.py").write_text(PYTHON)
    (tmp_path / "tests" / "tiny_test.py").write_text(PYTHON_TEST)
    return tmp_path


def python_words(project: Path) -> list[object]:
    build = project / "build" / "release"
    return [project / "source/tiny.py", "--tests", project / "tests/tiny_test.py", "--build", build]


def test_python_survivors_and_kills_are_told_apart(python_project):
    before = snapshot(python_project / "source"), snapshot(python_project / "tests")
    done = mutate(*python_words(python_project))
    assert re.search(
        r"survived: \S*tiny.py:4: `return count > most` -> `return count >= most`", done.stdout
    ), done.stdout + done.stderr
    assert "`return None` " not in done.stdout
    assert re.search(r"killed \(\S*test_what_is_over_is_over\): .* -> `return None`", done.stderr)
    assert done.stdout.splitlines()[-1].endswith("tiny.py: killed 1 of 2 (50 %)")
    assert done.returncode == 0
    assert mutate(*python_words(python_project), "--least", 60).returncode == 1
    assert before == (snapshot(python_project / "source"), snapshot(python_project / "tests"))


def test_what_no_test_reaches_survives(python_project):
    source = python_project / "source" / "tiny.py"
    source.write_text(PYTHON + "\ndef never():\n    return 5\n")
    done = mutate(*python_words(python_project))
    assert "survived (no test reaches it): " in done.stdout, done.stdout + done.stderr
    assert "`return 5` -> `return 6`" in done.stdout


def test_a_loop_that_no_longer_ends_is_killed(python_project):
    (python_project / "source" / "tiny.py").write_text(
        "def over(count, most):\n    while count > most:\n        most += 1\n        count -= 0\n"
        "        found = True\n    return bool(most % 2)\n"
    )
    (python_project / "tests" / "tiny_test.py").write_text(
        "from tiny import over\n\ndef test_over():\n    assert over(1, 0)\n"
    )
    done = mutate(*python_words(python_project), "--line", 3)
    assert "killed by the time limit: " in done.stderr, done.stdout + done.stderr
    assert "`most += 1` -> `most -= 1`" in done.stderr


def test_ctrl_c_leaves_nothing(python_project):
    (python_project / "tests" / "tiny_test.py").write_text(
        PYTHON_TEST + "\ndef test_waits():\n    import time\n    time.sleep(300)\n"
    )
    before = snapshot(python_project)
    words = [sys.executable, ROOT / "scripts/mutate", *python_words(python_project)]
    environment = {**os.environ, "TMPDIR": str(python_project / "build")}
    words = [str(word) for word in words]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment) as process:
        below = python_project / "build"
        while process.poll() is None and not list(below.glob("mutate-*/plain/python/tiny.py")):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert snapshot(python_project) == before


@pytest.mark.parametrize("together", ["OFF", "ON"])
def test_cpp_survivors_and_kills_are_told_apart(tmp_path, together):
    """Also where the build compiles the file together with its neighbours."""
    files = {"CMakeLists.txt": CMAKE, "over.cc": CPP, "test.cc": CPP_TEST}
    files["over.h"] = "#pragma once\nbool Over(int count, int most);\nchar Name();\n"
    files["name.cc"] = "#include \"over.h\"\nchar Name() { return 'n'; }\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    build = tmp_path / "build" / "release"
    make = [os.environ.get("CMAKE", "cmake"), "-S", tmp_path, "-B", build, "-G", "Ninja"]
    make += ["-DCMAKE_BUILD_TYPE=Release", f"-DTOGETHER={together}"]
    make += [f"-DCMAKE_MAKE_PROGRAM={os.environ['NINJA']}"] if "NINJA" in os.environ else []
    subprocess.run(make, check=True, capture_output=True)
    done = mutate(tmp_path / "over.cc", "--tests", "tiny_test", "--build", build, "--jobs", 2)
    assert re.search(
        r"survived: \S*over.cc:3: .*return count > most; }` -> .*count >= most; }`", done.stdout
    ), done.stdout + done.stderr
    assert "return {}" in done.stderr and "return true" in done.stderr
    assert done.stdout.splitlines()[-1].endswith("over.cc: killed 2 of 3 (67 %)")
    assert (tmp_path / "over.cc").read_text() == CPP


def test_a_file_without_tests_says_what_to_do(tmp_path):
    alone = tmp_path / "alone.cc"
    alone.write_text(CPP)
    done = mutate(alone)
    assert done.returncode == 2 and "give --tests" in done.stderr


def test_cpp_places_are_code():
    left = """
        #include <map>
        // if (a < b) return 1 + 2;
        static_assert(sizeof(int) == 4 && true);
        const char* text = "a < b && !c" R"x(1 + 2)x";
        void F() { log::Warn("n", n + 1, a < b); }
    """
    assert changes(cpp_places, left) == set()
    # Brackets of templates and references are no operators.
    left = "template <typename T> std::map<A, B> F(T&& x, const A& y, B* z);"
    assert changes(cpp_places, left) == set()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("bool f = a < b;", {"bool f = a <= b;"}),
        ("bool f = a && b;", {"bool f = a || b;"}),
        ("bool f = !a;", {"bool f = a;"}),
        ("int f = a + b;", {"int f = a - b;"}),
        ("int f = 3;", {"int f = 4;", "int f = 2;"}),
        ("double f = 0.5;", {"double f = (0.5 * 2);", "double f = (0.5 / 2);"}),
        ("int F() { return g; }", {"int F() { return {}; }"}),
        ("void F() { if (a) {} }", {"void F() { if (true) {} }", "void F() { if (false) {} }"}),
        ("void F() { while (a) {} }", {"void F() { while (false) {} }"}),
        ("void F() { g(a); }", {"void F() { ; }"}),
        ("void F() { a = b; }", {"void F() { ; }"}),
        ("void F() { if (auto i = g(); i) {} }",
         {"void F() { if (auto i = g(); true) {} }", "void F() { if (auto i = g(); false) {} }"}),
        ("void F() { Type a = b; }", set()),
    ],
)  # fmt: skip
def test_cpp_changes(source, wanted):
    assert changes(cpp_places, source) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("f = a < b", {"f = a <= b"}),
        ("f = a is not b", {"f = a is b"}),
        ("f = a and b", {"f = a or b"}),
        ("f = not a", {"f = a"}),
        ("f = (a) + (b)", {"f = (a) - (b)"}),
        ("f = 'a' + b", set()),
        ("f = f'{a + 1}'", set()),
        ("f = 3", {"f = 4", "f = 2"}),
        ("f: int = True", {"f: int = False"}),
        ("def f(a: 'int' = 0) -> Literal[3]:\n    'a < b'",
         {"def f(a: 'int' = 1) -> Literal[3]:\n    'a < b'"}),
        ("a.b = c", {"pass"}),
        ("f(a)", {"pass"}),
        ("log.warning(a + 1)", set()),
        ("a if b else c", {"a if True else c", "a if False else c", "pass"}),
        ("[a for a in b if a]", {"[a for a in b if True]", "[a for a in b if False]", "pass"}),
        ("é = a < b", {"é = a <= b"}),
    ],
)  # fmt: skip
def test_python_changes(source, wanted):
    assert changes(python_places, source) == wanted


def test_a_draw_is_the_same_again_and_takes_every_place_once_first():
    mutants = cpp_places.mutants_of("int a = 3; int b = 4; int c = 5; bool d = a < b;")
    first = drawn(mutants, 7)
    assert first == drawn(list(reversed(mutants)), 7) and first != drawn(mutants, 8)
    assert set(first) == set(mutants) and len(first) == len(mutants)
    assert len({mutant.start for mutant in first[:4]}) == 4


def test_every_suite_of_the_table_is_there():
    for folder in [*suites.PROGRAMS, *suites.FOLDERS]:
        assert (ROOT / folder).is_dir(), folder
    for program in suites.PROGRAMS.values():
        assert list((ROOT / "tests" / program.removesuffix("_test")).glob("*_test.cc")), program
    for folder in suites.FOLDERS.values():
        assert list((ROOT / folder).glob("*_test.py")), folder
    assert suites.tests_of("engines/diagnosis/cases/rank.cc") == "runs_test"
    assert suites.tests_of("tools/call.cc") == "call_test"
    assert suites.suites_of("numerics/growth.cc", "numerics_test") == ["GrowthTest"]
    assert suites.suites_of("numerics/simd.cc", "numerics_test") == []
    shadow = "monitor/python/mpnanny/shadow"
    assert suites.tests_of(f"{shadow}/changes.py") == "tests/shadow"
    assert suites.tests_of(f"{shadow}/schedule.py") == "tests/shadow/schedule_test.py"
    assert suites.tests_of("packaging/release.py") is None
