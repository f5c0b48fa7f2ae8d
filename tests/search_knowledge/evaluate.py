"""How well search_knowledge answers a set of questions written from public threads.

    evaluate.py PROGRAM SET…

PROGRAM is mpnanny. A SET is a folder with questions.jsonl (n, language, question, source, cause)
and labels.tsv (n, cases that are right joined by '|', or '-' where no case is about it), or a
.jsonl of questions about other subjects.

Prints for each set how often a right case comes first, and among the first five; and how often "no
case is about this" is said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def ask(program: str, question: str) -> dict[str, Any]:
    call = [
        program,
        "call",
        "search_knowledge",
        "--data-dir",
        str(Path(__file__).parents[2]),
        "--args",
        json.dumps({"query": question}),
    ]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def answers(program: str, path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines if line.strip()]
    return [(each, ask(program, each["question"])) for each in asked]


def other_subjects(program: str, path: Path) -> None:
    all_answers = answers(program, path)
    wrong = [each["question"] for each, answer in all_answers if answer["total"] > 0]
    said = len(all_answers) - len(wrong)
    print(f"{path}: {len(all_answers)} on other subjects, no case: {said / len(all_answers):.3f}")
    for question in wrong:
        print(f"    answered with cases: {question[:120]}")


def questions(program: str, folder: Path) -> None:
    labels = {}
    for line in (folder / "labels.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, right = line.split("\t")[:2]
            labels[int(number)] = [] if right == "-" else right.split("|")
    ranks: dict[str, list[int]] = {"en": [], "zh": []}
    without = refused = 0
    for each, answer in answers(program, folder / "questions.jsonl"):
        right = labels[each["n"]]
        if not right:
            without += 1
            continue
        refused += answer["total"] == 0
        found = [row["id"] for row in answer["results"]]
        rank = next((i for i, case in enumerate(found) if case in right), 99)
        ranks[each["language"]].append(rank)
        if rank > 0:
            print(f"    {each['n']:4d} {rank:2d} {each['question'][:70]!r} {right[0]}: {found[:2]}")
    for name, some in (("en", ranks["en"]), ("zh", ranks["zh"]), ("all", sum(ranks.values(), []))):
        if some:
            first = sum(rank == 0 for rank in some) / len(some)
            five = sum(rank < 5 for rank in some) / len(some)
            print(
                f"{folder} {name}: {len(some)} with a case, first {first:.3f}, in five {five:.3f}"
            )
    print(f"{folder}: {without} without a case, {refused} of the others answered 'no case'")


def main() -> None:
    program = sys.argv[1]
    for name in sys.argv[2:]:
        path = Path(name)
        if path.is_dir():
            questions(program, path)
        else:
            other_subjects(program, path)


if __name__ == "__main__":
    main()
