"""Measures each program of labels.json: compiled against eager, and both against float64.

python check.py [name ...] [--quick] [--remedies]
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).parent
warnings.filterwarnings("ignore")


def tensor(word: str):
    match = re.fullmatch(r"(?:\w+=)?(\w+)\[([\d,]*)\](?:<(\d+))?(?:~(\w+)(?:\(([^)]*)\))?)?", word)
    kind, shape, below, how, numbers = match.groups()
    dtype = getattr(torch, kind)
    shape = [int(n) for n in shape.split(",") if n]
    numbers = [float(n) for n in (numbers or "").split(",") if n]
    if below:
        return torch.randint(int(below), shape, dtype=dtype)
    if how in (None, "normal"):
        mean, std = numbers or (0.0, 1.0)
        return (torch.randn(shape) * std + mean).to(dtype)
    if how == "uniform":
        low, high = numbers or (0.0, 1.0)
        return (torch.rand(shape) * (high - low) + low).to(dtype)
    if how == "lognormal":
        return (torch.randn(shape) * numbers[1] + numbers[0]).exp().to(dtype)
    raise ValueError(word)


def load(path: str):
    spec = importlib.util.spec_from_file_location("program", HERE / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wider(value):
    return value.detach().double() if torch.is_floating_point(value) else value.clone()


def run(label: dict, seed: int, double: bool = False, **options):
    ask = label["ask"]
    path, name = (ask.get("model") or ask["function"]).split(":")
    program = load(path)
    torch.manual_seed(seed)
    inputs = [tensor(word) for word in ask["input"]]
    call = getattr(program, name)
    parameters = {}
    if "model" in ask:
        call = call()
        if double:
            call = call.double()
        parameters = dict(call.named_parameters())
    if double:
        inputs = [wider(value) for value in inputs]
    if label["backward"]:
        inputs = [value.requires_grad_() if torch.is_floating_point(value) else value for value in inputs]
    model = call
    torch._dynamo.reset()
    if options:
        backend = options.pop("backend", "inductor")
        call = torch.compile(call, backend=backend, options=options or None)
    outputs = call(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    result = {f"out{i}": value.detach() for i, value in enumerate(outputs)}
    if label["backward"]:
        torch.manual_seed(99)
        probes = [torch.randn(value.shape).to(value.dtype) for value in outputs if value.requires_grad]
        torch.autograd.backward([value for value in outputs if value.requires_grad], probes)
        result |= {f"d in{i}": value.grad for i, value in enumerate(inputs) if value.grad is not None}
        result |= {f"d {key}": value.grad for key, value in parameters.items() if value.grad is not None}
    if "model" in ask:
        result |= {key: value.clone() for key, value in model.named_buffers()}
    return result


def distance(a, b):
    a, b = a.double(), b.double()
    if a.shape != b.shape:
        return "shape"
    lost = (a.isfinite() != b.isfinite()).sum().item()
    both = a.isfinite() & b.isfinite()
    if not both.any():
        return f"{lost} nonfinite"
    gap = torch.where(both, a - b, 0).norm() / (torch.where(both, b, 0).norm() + 1e-30)
    return f"{gap:.1e}" + (f"+{lost} nonfinite" if lost else "")


def key(text):
    if "nonfinite" in text or text == "shape":
        return 1e9
    return float(text)


def worst(first, second, which):
    found = [(distance(first[name], second[name]), name) for name in first if which(name)]
    return max(found, key=lambda pair: key(pair[0])) if found else ("-", "")


def main():
    labels = json.loads((HERE / "labels.json").read_text())
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    for name, label in labels.items():
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        for seed in (0,) if "--quick" in sys.argv else (0, 1):
            eager = run(label, seed)
            again = run(label, seed)
            exact = run(label, seed, double=True)
            compiled = run(label, seed, backend="inductor")
            line = [f"{name} fault={label['fault']} seed {seed}"]
            for part, which in (("out", lambda n: not n.startswith("d ")), ("grad", lambda n: n.startswith("d "))):
                gap, where = worst(compiled, eager, which)
                if gap == "-":
                    continue
                line.append(
                    f"{part}: c-e {gap} ({where}) e-64 {worst(eager, exact, which)[0]} c-64 {worst(compiled, exact, which)[0]}"
                )
            line.append("again " + worst(again, eager, lambda n: True)[0])
            kinds = [n for n in eager if eager[n].dtype != compiled[n].dtype or eager[n].shape != compiled[n].shape]
            print(" | ".join(line), kinds or "", flush=True)
        if "--remedies" in sys.argv and label["fault"]:
            for title, options in (
                ("emulate", {"emulate_precision_casts": True}),
                ("eager backend", {"backend": "eager"}),
                ("aot_eager", {"backend": "aot_eager"}),
                ("aot_eager with decompositions", {"backend": "aot_eager_decomp_partition"}),
            ):
                try:
                    fixed = run(label, 0, **dict(options))
                    print("    ", title, worst(fixed, run(label, 0), lambda n: True), flush=True)
                except Exception as error:
                    print("    ", title, "raises", type(error).__name__, str(error)[:120].replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
