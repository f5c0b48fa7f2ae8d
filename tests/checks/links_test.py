"""Every link and every page that a comment names leads somewhere: the file, and its heading."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CITED = re.compile(r"(?<![\w/.])([\w][\w/.-]*\.md)(?:#([\w-]+))?")
SOURCES = (".cc", ".h", ".py", "")
# Pages that are made by a program, or stand in a user's checkout, or are an example's.
ELSEWHERE = re.compile(r"^(step-\d+|README|case|page|notes|REPORT|CLAUDE|AGENTS)\.md$")


@functools.cache
def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


@functools.cache
def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    found: set[str] = set()
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line.startswith("#"):
            continue
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def pages() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md"]


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    fenced = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", fenced)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


def cited(source: Path, path: str) -> list[Path]:
    """What a comment may mean: from the root, from beside the file, or any page of that name."""
    places = [ROOT / path, source.parent / path]
    return [each for each in places if each.exists()] or [
        page for page in pages() if page.name == path
    ]


def test_pages_that_comments_cite_exist() -> None:
    missing = []
    for source in tracked():
        if source.suffix not in SOURCES or ROOT / "tests" in source.parents:
            continue
        for line in source.read_text(encoding="utf-8", errors="ignore").splitlines():
            text = line.strip()
            if not text.startswith(("//", "#")):
                continue
            for path, anchor in CITED.findall(text):
                if ELSEWHERE.match(path):
                    continue
                if not any(not anchor or anchor in anchors(page) for page in cited(source, path)):
                    missing.append(f"{source.relative_to(ROOT)}: {path} {anchor}".rstrip())
    assert not missing, "\n".join(missing)
