"""Runs trainings of several ranks under `mpnanny run` and says what diagnose_run answers beside the
labels.

    python tests/ranks/evaluate.py tests/ranks/blind build/ranks [names …]

A broken one counts as named where the first cause is of the label's kind and the answer names the
step (or the one whose update made it), a tensor of the label, and the ranks; a healthy one as clean
where the verdict is healthy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"
PYTHON = ROOT / ".venv/bin/python"

# By the kinds of labels.json, what the first cause's title says.
KINDS = {
    "norm": r"norm",
    "replicated_buffer": r"buffer",
    "replicated_parameter": r"did not begin the same|in different ways",
    "reduction_missing": r"is not reduced over the ranks",
    "reduction_doubled": r"reduced twice",
    "count_reduced_in_place": r"again and again",
    "nan_of_one_rank": r"NaN|rank \d",
    "dropout_seeds": r"derive different gradients",
    "tied_reduced_once": r"not reduced",
    "other": r".",
}


def record(program: Path, folder: Path, ranks: int) -> float:
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    command = [
        *(str(PROGRAM), "run", "--db", str(folder / "metrics.db"), "--"),
        *(str(PYTHON), "-m", "torch.distributed.run", f"--nproc_per_node={ranks}"),
        str(program),
    ]
    with (folder / "output.txt").open("w") as output:
        subprocess.run(command, stdout=output, stderr=output, timeout=300, check=False)
    return time.monotonic() - began


def ask(folder: Path) -> dict[str, Any]:
    command = [PROGRAM, "call", "diagnose_run", "--root", folder, "--args", "-"]
    arguments = json.dumps({"run": str(folder), "detail": "full"})
    done = subprocess.run(command, input=arguments, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"verdict": done.stderr}


def judge(label: dict[str, Any], answer: dict[str, Any]) -> tuple[bool, dict[str, bool]]:
    if not label["broken"]:
        return answer["verdict"] == "healthy", {}
    causes = answer.get("hypotheses", [])
    first = causes[0] if causes else {}
    text = json.dumps([first.get("title"), first.get("evidence"), answer.get("first_bad")])
    said = [int(each) for each in re.findall(r"step (\d+)", text)]
    step = (answer.get("first_bad") or {}).get("step")
    steps = said if step is None else [step, *said]
    ranks = label["ranks_at_fault"]
    told = {
        "verdict": answer["verdict"] != "healthy",
        "kind": bool(re.search(KINDS[label["kind"]], str(first.get("title")))),
        "step": any(label["first_step"] <= each <= label["first_step"] + 1 for each in steps),
        "tensor": not label["tensors"] or any(each in text for each in label["tensors"]),
        "ranks": not ranks
        or "Each rank" in text
        or any(re.search(rf"[Rr]anks? [\d, and]*\b{each}\b", text) for each in ranks),
    }
    return all(told.values()), told


def main() -> None:
    programs, folder = Path(sys.argv[1]), Path(sys.argv[2])
    labels = json.loads((programs / "labels.json").read_text())
    named = clean = broken = healthy = 0
    for name, label in sorted(labels.items()):
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        place = folder / name
        seconds = (
            record(programs / f"{name}.py", place, label["ranks"]) if not place.exists() else 0
        )
        answer = ask(place)
        right, told = judge(label, answer)
        broken += label["broken"]
        healthy += not label["broken"]
        named += right and label["broken"]
        clean += right and not label["broken"]
        causes = answer.get("hypotheses", [])
        print(f"{name} {'right' if right else 'WRONG'} {label['kind']} {seconds:.0f} s")
        print(f"   label: step {label['first_step']}, {label['tensors'][:3]}, {label['says']}")
        print(f"   said:  {answer['verdict']}: {causes[0]['title'] if causes else '-'}")
        for each in causes[0]["evidence"][:2] if causes else []:
            print(f"          {each}")
        if told and not right:
            print(f"   lacks: {[each for each, yes in told.items() if not yes]}")
    print(f"named {named} of {broken}, clean {clean} of {healthy}")


if __name__ == "__main__":
    main()
