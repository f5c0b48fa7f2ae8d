"""The words that are taken (scripts/words.py): a type or a file of that name stands where it
may.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = """# Map

## Words

| word | means | whose |
|---|---|---|
| run | one training | |
| protocol | what goes over a wire | `server/`, `engines/worker/` |

## Life
| judge | not of this table | `engines/` |
"""


def words():
    spec = importlib.util.spec_from_file_location("words", ROOT / "scripts/words.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(root: Path, **files: str) -> list[str]:
    (root / "docs").mkdir()
    (root / "docs/architecture.md").write_text(PAGE)
    paths = []
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path.relative_to(root).as_posix())
    return words().misplaced(root, paths)


def test_the_table_has_at_most_forty_words_with_one_meaning_each():
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.split("\n## Words\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][
        1:
    ]
    assert 20 <= len(rows) <= 40
    assert len(set(rows)) == len(rows)


def test_every_folder_of_the_table_is_there():
    page = (ROOT / "docs/architecture.md").read_text()
    for folders in words().taken(page).values():
        for folder in folders:
            assert (ROOT / folder).is_dir(), folder


@pytest.mark.parametrize(
    "text",
    ["class Protocol {\n", "struct Protocol {\n", "enum class Protocol {\n"],
)
def test_a_type_of_a_taken_name_elsewhere_is_told(tmp_path, text):
    assert lines(tmp_path, engines__check__order_DOT_h=text) == [
        "engines/check/order.h: 'protocol' is server/ and engines/worker/'s"
    ]


def test_a_file_of_a_taken_name_elsewhere_is_told(tmp_path):
    assert lines(tmp_path, monitor__python__protocol_DOT_py="") == [
        "monitor/python/protocol.py: 'protocol' is server/ and engines/worker/'s"
    ]


def test_where_it_may_stand_and_what_only_contains_it_is_right(tmp_path):
    assert not lines(
        tmp_path,
        server__protocol_DOT_h="struct Protocol {\n",
        engines__worker__wire_DOT_h="class Protocol {\n",
        engines__check__forward_DOT_h="class Protocol;\n",  # only declared
        engines__check__versions_DOT_h="struct ProtocolVersion {\n",
        engines__check__judge_DOT_h="class Judge {\n",  # of another table
        tests__protocol_DOT_py="class Protocol:\n",
    )
