"""Bears out labels.json without mpnanny: `python check.py`, or `python check.py 03 14` for some
programs.

Every program runs with a stand-in that keeps what is handed over. A faulty one must differ by more
than rounding and as its label says, and runs once more with the fault taken out, where FP32
rounding alone may be left. Returns 1 if not.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# (what the program has, what it would have without the fault)
WITHOUT = {
    "01": ("token, logits.log_softmax", "token, (logits / temperature).log_softmax"),
    "02": ("(x / unit).round() * unit", "x.clone()"),
    "03": ("QUEUE = 3", "QUEUE = 1"),
    "06": ("def logits", "def unused"),
    "07": ("def choice", "def unused"),
    "08": (
        "torch.arange(whole.shape[1]).expand_as(whole)",
        "(real.long().cumsum(1) - 1).clamp(min=0)",
    ),
    "09": ("BEST = 40", "BEST = 10**6"),
    "11": ("USUAL, FACTOR = 32", "USUAL, FACTOR = 10**6"),
    "12": ("begins[:, 0] = True", "begins[:] = positions == 0"),
    "13": ('"out", "up")', '"out", "up", "down")'),
    "15": ('torch.autocast("cpu", torch.bfloat16)', 'torch.autocast("cpu", enabled=False)'),
    "16": ("[:, at + 1 :]", "[:, at:-1]"),
}
ROUNDING = {"05": 2e-2, "10": 1.5e-3}  # 16 bits; 1e-6 for all others

# what else must hold of a program as it is: `d` differences, `p` the engine's probabilities, both
# of all tokens that count; `means` the mean of |d| at each update
TELLING = {
    "01": "d[p < 0.01].mean() > 0.1 and d[p > 0.9].mean() < -0.1",
    "02": "min(means) > 0.05",
    "03": "means[0] < 1e-6 and min(means[1:]) > 1e-3",
    "05": "d.mean().abs() < 1e-3 and max(means) < 1.3 * min(means)",
    "06": "d[p < 0.1].mean() > 0.1 and d[p > 0.5].mean() < -0.05",
    "07": "0.1 < share < 0.5 and d[elsewhere].abs().mean() > 10 * d[~elsewhere].abs().mean()",
    "08": "full.any() and shares[full].max() < 1e-5 and shares[~full].median() > 1e-2",
    "09": "d.max() < 0",
    "10": "not elsewhere.any()",
    "11": "d[places <= 32].abs().max() < 1e-4 and d[places > 36].abs().mean() > 1e-2",
    "12": "d[documents == 0].abs().max() < 1e-4 and d[documents > 0].abs().mean() > 1e-2",
    "13": "min(means) > 5e-3",
    "15": "(d - rounded).abs().mean() < 1e-6",
    "16": "moved < 1e-5",
}

STAND_IN = """
import sys, types
sys.path.insert(0, {here!r})
import torch
calls = []
def log_mismatch(trainer, rollout, mask=None, positions=None, documents=None, tokens=None, **rest):
    if isinstance(trainer, list):
        assert [len(x) for x in trainer] == [len(x) for x in rollout]
        trainer, rollout = torch.tensor(sum(trainer, [])), torch.tensor(sum(rollout, []))
    assert trainer.shape == rollout.shape
    mask = torch.ones_like(trainer).bool() if mask is None else mask.bool()
    call = dict(trainer=trainer, rollout=rollout, mask=mask)
    call |= dict(positions=positions, documents=documents, tokens=tokens)
    for x in call.values():
        assert x is None or x.shape == trainer.shape
    for x in rest.get("experts") or ():
        assert x.shape[: trainer.dim()] == trainer.shape
    calls.append(call | rest | dict(head=rest["head"].clone() if "head" in rest else None))
sys.modules["mpnanny"] = types.SimpleNamespace(log_mismatch=log_mismatch)
exec(compile({source!r}, {name!r}, "exec"), {{"__name__": "__main__"}})

def counting(take):
    return torch.cat([take(c)[c["mask"]] for c in calls])
def diff(c):
    return ((c["trainer"] - c["rollout"]) * c["mask"]).double()
d, p = counting(diff), counting(lambda c: c["rollout"]).exp()
means = [diff(c)[c["mask"]].abs().mean().item() for c in calls]
first = calls[0]
if first["positions"] is not None:
    places = counting(lambda c: c["positions"])
if first["documents"] is not None:
    documents = counting(lambda c: c["documents"])
if first.get("experts"):
    def other(c):
        ours, theirs = (x.sort(-1).values for x in c["experts"])
        return (ours != theirs).flatten(2).any(-1)
    elsewhere = counting(other)
    share = elsewhere.float().mean()
if first["head"] is not None:
    def head(c):
        logits = (c["hidden"].bfloat16() @ c["head"].bfloat16().T).float()
        return logits.log_softmax(-1).gather(-1, c["tokens"][..., None])[..., 0] - c["rollout"]
    rounded = counting(head)
if {number!r} == "08":
    full = torch.cat([c["tokens"][:, 0] == 1 for c in calls])
    shares = torch.cat([diff(c).abs().sum(1) / c["mask"].sum(1) for c in calls])
if {number!r} == "16":
    def apart(c):
        both = c["mask"][:, :-1] & c["mask"][:, 1:]
        return (c["trainer"][:, :-1] - c["rollout"][:, 1:])[both].abs().max()
    moved = max(apart(c) for c in calls)
print("MEASURED", len(calls), d.abs().mean().item(), d.abs().max().item(), bool({telling}))
"""


def measured(path, source, telling="True"):
    number = path.name[:2]
    code = STAND_IN.format(
        here=str(HERE), source=source, name=path.name, number=number, telling=telling
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = re.search(r"MEASURED (\d+) (\S+) (\S+) (\S+)", out.stdout)
    if not found:
        sys.exit(f"{path.name} failed:\n{out.stderr}")
    return int(found[1]), float(found[2]), float(found[3]), found[4] == "True"


def main(wanted):
    labels = json.loads((HERE / "labels.json").read_text())
    wrong = 0
    for name, label in sorted(labels.items()):
        number = name[:2]
        if wanted and number not in wanted:
            continue
        path = HERE / f"{name}.py"
        source = path.read_text()
        updates, mean, most, right = measured(path, source, TELLING.get(number, "True"))
        line = f"{name}: {updates} updates, mean {mean:.1e}, largest {most:.1e}"
        if not right:
            line += ", does not differ as its label says"
        if label["fault"]:
            has, would_have = WITHOUT[number]
            assert source.count(has) == 1, name
            _, left, left_most, _ = measured(path, source.replace(has, would_have))
            line += f"; without the fault mean {left:.1e}, largest {left_most:.1e}"
            right = right and mean > 1e-3 and left < 1e-6
        else:
            assert number not in WITHOUT, name
            right = right and mean < ROUNDING.get(number, 1e-6)
        wrong += not right
        print(line + ("" if right else "  <-- wrong"), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
