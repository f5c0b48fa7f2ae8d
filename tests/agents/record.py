"""Runs a planted training: record.py NAME TARGET_DIR [--mpnanny PROGRAM] [--only clean|log|run].

log: once plainly, output to TARGET_DIR/log.txt.
run: once as `mpnanny run`, database in TARGET_DIR/run/.
clean: once against the installed, unplanted package, output to TARGET_DIR/../../clean/NAME.txt,
for the labels.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path


def run_training(command: list[str], target: Path, log: Path, code: str) -> int:
    """Runs the command in TARGET, `code` first on the path; stdout and stderr go to `log`."""
    environment = {
        **os.environ,
        "PYTHONPATH": code,
        "OMP_NUM_THREADS": "1",
        "PYTHONPYCACHEPREFIX": str(target.parent.parent / "pycache"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONUNBUFFERED": "1",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        return subprocess.run(
            command, cwd=target, env=environment, stdout=out, stderr=subprocess.STDOUT
        ).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("target", type=Path)
    parser.add_argument("--mpnanny", default="mpnanny")
    parser.add_argument(
        "--only", nargs="*", choices=["clean", "log", "run"], default=["log", "run"]
    )
    arguments = parser.parse_args()
    target = arguments.target.resolve()
    training = ["nice", "-n", "15", sys.executable, "train.py"]
    code = str(target / "code")
    clean_log = target.parent.parent / "clean" / f"{arguments.name}.txt"
    if "clean" in arguments.only:
        print("clean", run_training(training, target, clean_log, ""))
    if "log" in arguments.only:
        print("log", run_training(training, target, target / "log.txt", code))
    if "run" in arguments.only:
        watched = [arguments.mpnanny, "run", "--db", "run/metrics.db", "--", *training]
        shutil.rmtree(target / "run", ignore_errors=True)  # else a second run in one database
        (target / "run").mkdir()
        print("run", run_training(watched, target, clean_log.with_suffix(".watched.txt"), code))


if __name__ == "__main__":
    main()
