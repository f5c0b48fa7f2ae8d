#!/usr/bin/env python3
"""How long `auto_diff` of an exported model takes over one server: the first answer and the next.

    PYTHONPATH=build/release/python .venv/bin/python bench/worker/latency.py [--repeats 15]

See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "worker"))
from asking import PROGRAM, Server, text_of

WORDS = ["float32[4,8]"]


def write_models(folder: pathlib.Path) -> dict[str, nn.Module]:
    """A tiny model in both formats, as tiny.pt and tiny.pt2; and in Python, to compare with."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(model), str(folder / "tiny.pt"))
        torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), folder / "tiny.pt2")
    (folder / "tiny.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()\n"
    )
    return {"tiny": model}


def asked(server: Server, model: str) -> float:
    """Milliseconds from the request to its answer."""
    more = {"python": sys.executable, "backward": False} if model.endswith("build") else {}
    began = time.perf_counter()
    found = server.call(120, model=model, input=WORDS, **more)
    taken = time.perf_counter() - began
    assert not found.get("isError"), text_of(found)
    return 1e3 * taken


def measure(folder: pathlib.Path, model: str, repeats: int, warm: int) -> dict[str, float]:
    """Of `repeats` servers: the first answer, and the median of the `warm` ones after it."""
    first, after = [], []
    for _ in range(repeats):
        server = Server(folder, "--allow-exec")
        try:
            server.ask("ping")  # the server itself has started
            first.append(asked(server, model))
            after.append(statistics.median(asked(server, model) for _ in range(warm)))
        finally:
            server.close()
    return {
        "first_ms": statistics.median(first),
        "first_most_ms": max(first),
        "warm_ms": statistics.median(after),
        "warm_most_ms": max(after),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="servers of each format")
    parser.add_argument("--warm", type=int, default=10, help="answers after the first")
    parser.add_argument("--without-python", action="store_true", help="leave out tiny.py:build")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    models = ["tiny.pt", "tiny.pt2"] + ([] if given.without_python else ["tiny.py:build"])
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        write_models(folder)
        rows = {name: measure(folder, name, given.repeats, given.warm) for name in models}
    if given.json:
        print(json.dumps({"program": PROGRAM.name, "repeats": given.repeats, "rows": rows}))
        return
    print(f"{'model':14} {'first, ms':>10} {'(most)':>8} {'warm, ms':>10} {'(most)':>8}")
    for name, row in rows.items():
        print(
            f"{name:14} {row['first_ms']:10.1f} {row['first_most_ms']:8.1f}"
            f" {row['warm_ms']:10.1f} {row['warm_most_ms']:8.1f}"
        )
    print(f"medians of {given.repeats} servers, {given.warm} answers after the first of each")


if __name__ == "__main__":
    main()
