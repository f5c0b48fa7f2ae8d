"""What was found in one training of a few lines."""

from __future__ import annotations

import json
from typing import Any

import torch
from conftest import Database


class Finds:
    """Findings of one training, the worst first, with the text of each line."""

    def __init__(self, database: Database) -> None:
        self.database = database
        order = "ORDER BY CASE severity WHEN 'ERROR' THEN 0 WHEN 'WARNING' THEN 1 ELSE 2 END"
        self.all = database.rows(f"SELECT * FROM shadow_finding {order}, finding_id")
        for each in self.all:
            each["line"] = text_of(each["source"])
            each["reach"] = [reach["what"] for reach in json.loads(each["reach"] or "[]")]
            each["cure"] = json.loads(each["cure"] or "null")
            if each["cure"]:
                each["cure"]["lines"] = [text_of(line) for line in each["cure"]["lines"]]
        self.steps = database.rows("SELECT * FROM shadow_step ORDER BY step")

    @property
    def severe(self) -> list[dict[str, Any]]:
        return [each for each in self.all if each["severity"] != "INFO"]

    @property
    def kinds(self) -> set[str]:
        return {each["kind"] for each in self.severe}

    def first(self) -> dict[str, Any]:
        assert self.all
        return self.all[0]


def text_of(source: str | None) -> str:
    """The text of a line, where it is one of these tests."""
    file, _, number = (source or "").rpartition(":")
    if not file.endswith("_test.py"):
        return source or ""
    with open(file, encoding="utf-8") as lines:
        return lines.read().splitlines()[int(number) - 1].strip()


def inputs(rows: int = 16, columns: int = 8) -> torch.Tensor:
    return torch.randn(rows, columns)
