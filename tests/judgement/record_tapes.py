"""Records tapes/ anew: those of the small trainings in tests/shadow, one folder a test.

Usage: .venv/bin/python tests/judgement/record_tapes.py
       UPDATE_TAPES=1 build/release/bin/judgement_test --gtest_filter='RecordedTapes.*'

Tapes of more than MOST_BYTES are left out, and of a test those of its first steps are enough. What
was found on them stands in found.txt beside them, which the second command writes: read its diff.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
FILES = ("findings", "small_errors", "lost_changes", "origins", "decisions", "carriers", "inputs")
MOST_BYTES = 14_000  # of a tape
MOST_STEPS = 3
PACKAGES = re.compile(r"file=\S*/site-packages/")


class Record:
    """Keeps the tapes of each test in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        name = re.sub(r"\W+", "_", item.name.removeprefix("test_")).strip("_")
        os.environ["MPNANNY_TAPE"] = str(self._folder / name)


def keep(folder: pathlib.Path) -> bool:
    """Copies the tapes of one test, without this machine's paths; False where they are no small
    ones of a whole training.
    """
    tapes = sorted(folder.glob("step*.tape"))[:MOST_STEPS]
    if not tapes or any(each.stat().st_size > MOST_BYTES for each in tapes):
        return False
    target = HERE / "tapes" / folder.name
    target.mkdir(parents=True)
    for tape in tapes:
        text = tape.read_text().replace(f"{ROOT}/tests/", "tests/")
        text = PACKAGES.sub("file=", text).replace(f"{ROOT}/", "")
        (target / tape.name).write_text(text)
    return True


def main() -> int:
    shutil.rmtree(HERE / "tapes", ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tests = [str(ROOT / "tests/shadow" / f"{each}_test.py") for each in FILES]
        code = pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[Record(folder)])
        kept = sum(map(keep, sorted(each for each in folder.iterdir() if each.is_dir())))
        print(f"{kept} tests' tapes")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
