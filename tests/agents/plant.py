"""Plants one fault: plant.py NAME TARGET_DIR.

Copies the installed package that the fault lies in to TARGET_DIR/code, edits it there and puts the
training script beside it as train.py. All files get one time, so that the edited file does not
stand out.
"""

import argparse
import importlib.util
import json
import os
import shutil
from pathlib import Path

HERE = Path(__file__).parent
FILE_TIME = 1_700_000_000  # any fixed time (Unix seconds)


def plant(name: str, target: Path) -> None:
    """Writes TARGET/code and TARGET/train.py; refuses an edit that does not fit exactly once."""
    fault = json.loads((HERE / "faults" / f"{name}.json").read_text())
    spec = importlib.util.find_spec(fault["package"])
    if spec is None or spec.origin is None:
        raise SystemExit(f"{fault['package']} {fault['version']} is not installed")
    shutil.rmtree(target / "code", ignore_errors=True)
    copy = target / "code" / fault["package"]
    shutil.copytree(Path(spec.origin).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    edited = target / "code" / fault["file"]
    text = edited.read_text()
    if text.count(fault["old"]) != 1:
        raise SystemExit(
            f"{name}: the old text occurs {text.count(fault['old'])} times in {fault['file']}"
        )
    edited.write_text(text.replace(fault["old"], fault["new"]))
    shutil.copy(HERE / "scripts" / f"{name}.py", target / "train.py")
    for path in [target / "train.py", *(target / "code").rglob("*")]:
        os.utime(path, (FILE_TIME, FILE_TIME))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    plant(arguments.name, arguments.target)
