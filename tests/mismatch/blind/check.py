"""Measures the labels without mpnanny: `python check.py 01 12`, or `python check.py all`.

Runs each program with a stand-in for mpnanny that only keeps the differences of the log-probs; a faulty one runs once more
with its fault taken out, which must leave nothing but rounding. Ends with 1 if it does not.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# program: (what stands there, what a healthy program has there)
CURES = {
    "01": ("TEMPERATURE = 0.7", "TEMPERATURE = 1.0"),
    "03": ("(lower & filled[:, None, :])", '(lower & (packed["documents"][:, :, None] == packed["documents"][:, None, :]))'),
    "04": (".bfloat16()", ""),
    "05": ("module.weight + module.b", "module.weight + module.scaling * module.b"),
    "06": (".bfloat16()", ""),
    "08": ("WINDOW = 24", "WINDOW = 10**6"),
    "09": ("SYNC_EVERY = 4", "SYNC_EVERY = 1"),
    "10": ("TOP_P = 0.95", "TOP_P = 1.0"),
    "12": ("self.next = positions[:, -1:] + 1", "self.next = positions[:, -1:]"),
    "13": ("if layer not in self.fused:", "if True:"),
    "14": ("[t for t in prompt if t > EOS]", "list(prompt)"),
    "16": ("torch.float8_e4m3fn", "torch.float32"),
}

# cured programs and the two healthy ones in FP32 differ by rounding of FP32; these engines round to 16 bits throughout
ROUNDING = {"07": 6e-3, "11": 1.5e-3, "15": 1e-2}

STAND_IN = """
import sys, types
differences = []
def log_mismatch(trainer, rollout, mask=None, **rest):
    for x in (mask, rest.get("positions"), rest.get("documents"), rest.get("tokens")):
        assert x is None or x.shape == trainer.shape
    differences.append((trainer - rollout)[mask.bool()].double().abs())
sys.modules["mpnanny"] = types.SimpleNamespace(log_mismatch=log_mismatch)
sys.path.insert(0, {here!r})
exec(compile({source!r}, {name!r}, "exec"), {{"__name__": "__main__"}})
import torch
print("MEASURED", len(differences), torch.cat(differences).mean().item(), torch.cat(differences).max().item())
"""


def measure(path, source):
    code = STAND_IN.format(here=str(HERE), source=source, name=path.name)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = re.search(r"MEASURED (\d+) (\S+) (\S+)", out.stdout)
    if not found:
        sys.exit(f"{path.name} failed:\n{out.stderr}")
    return int(found[1]), float(found[2]), float(found[3])


def main(wanted):
    labels = json.loads((HERE / "labels.json").read_text())
    wrong = 0
    for name, label in sorted(labels.items()):
        if wanted != ["all"] and name[:2] not in wanted:
            continue
        path = HERE / f"{name}.py"
        source = path.read_text()
        updates, mean, most = measure(path, source)
        line = f"{name}: {updates} updates, mean {mean:.1e}, max {most:.1e}"
        if label["fault"]:
            old, new = CURES[name[:2]]
            assert old in source, name
            _, cured, cured_most = measure(path, source.replace(old, new))
            line += f"; without the fault mean {cured:.1e}, max {cured_most:.1e}"
            right = mean > 1e-3 and cured < 1e-6
        else:
            right = mean < ROUNDING.get(name[:2], 1e-6)
        wrong += not right
        print(line + ("" if right else "  <-- not as labelled"), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["all"]))
