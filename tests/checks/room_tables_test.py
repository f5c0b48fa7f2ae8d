"""The READMEs of rooms as tables of contents: no file of a room is missing in its README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A room's README names the files of its folders too, but not of these, where one file is one thing
# of a kind, found by its name.
OF_ONE_KIND = {"engines/check/rules", "engines/diagnosis/detectors", "monitor/python"}
ROOMS = [
    "engines/check",
    "engines/check/candidates",
    "engines/diagnosis",
    "engines/export",
    "engines/pictures",
    "engines/runs",
    "engines/runs/import",
    "engines/team",
    "engines/tensors",
    "engines/worker",
    "monitor",
    "tools/report/page",
]
CODE = {".h", ".cc", ".js", ".html"}


def is_named(stem: str, text: str) -> bool:
    """Whether the text holds the name, or the beginning of it with a star."""
    names = set(re.findall(r"[a-z0-9_]+\*?", text))
    starred = tuple(name[:-1] for name in names if name.endswith("*"))
    return stem in names or (bool(starred) and stem.startswith(starred))


def files_of(room: str) -> list[Path]:
    """Of the room and of its folders that have no README of their own."""
    found = []
    folders = [ROOT / room]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir():
                own = (path / "README.md").is_file()
                if not own and str(path.relative_to(ROOT)) not in OF_ONE_KIND:
                    folders.append(path)
            elif path.suffix in CODE:
                found.append(path)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_readme_names_its_files(room):
    text = (ROOT / room / "README.md").read_text(encoding="utf-8")
    files = files_of(room)
    assert files
    missing = {path.stem for path in files if not is_named(path.stem, text)}
    assert not missing, f"{room}/README.md does not name {', '.join(sorted(missing))}"


def test_a_name_is_whole_or_starred():
    text = "| `gather.*`, `settings*.*` | one pass |"
    assert is_named("gather", text)
    assert is_named("settings_python", text)
    assert not is_named("gather_log", text)
    assert not is_named("pas", text)
