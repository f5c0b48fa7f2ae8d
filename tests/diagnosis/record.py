"""Records planted trainings with the monitor: python record.py [--variant N] FOLDER [NAME…].

Leaves NAME.vN.db and NAME.vN.json (its label, with the steps that a witness found) in FOLDER.
Needs mpnanny on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import pathlib
from typing import Any

import programs
import torch
from mpnanny import MixedPrecisionNanny
from planted import PROGRAMS, VARIANTS, labelled


def record(name: str, variant: int, folder: pathlib.Path) -> pathlib.Path:
    """One training, watched, and its label; answers with the database."""
    database = folder / f"{name}.v{variant}.db"
    for old in folder.glob(f"{database.name}*"):
        old.unlink()

    def watch(*args: Any, **options: Any) -> MixedPrecisionNanny:
        return MixedPrecisionNanny(*args, db=database, name="train", quiet=True, **options)

    PROGRAMS[name](watch, variant)
    label = dataclasses.asdict(labelled(name, variant)[0])
    file = pathlib.Path(inspect.getsourcefile(PROGRAMS[name]) or "").name
    database.with_suffix(".json").write_text(
        json.dumps({"name": name, "variant": variant, "file": file, **label}, indent=1)
    )
    return database


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--variant", type=int, action="append", choices=VARIANTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for variant in options.variant or [1]:
        for name in options.names or PROGRAMS:
            print(record(name, variant, options.folder), flush=True)


if __name__ == "__main__":
    assert programs
    main()
