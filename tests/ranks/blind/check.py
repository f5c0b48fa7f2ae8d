"""Measures with plain torch what labels.json claims of a program: `python check.py rNN` (or `all`).

Starts the program's ranks by torchrun, with hooks of torch alone around it: every optimizer step
the ranks' parameters, gradients, buffers and the local gradients before any reduction are gathered
and compared. Some programs have one measure of their own (the true gradient norm, the true token
counts). Ends with 1 if a label is not borne out.
"""

import functools
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-4


def rel(a, b):
    """Largest difference over the largest value; infinite where only one of them is finite."""
    a, b = a.double(), b.double()
    if a.shape != b.shape:
        return float("inf")
    if not (a.isfinite().all() and b.isfinite().all()):
        same = (a == b) | (a.isnan() & b.isnan())
        return 0.0 if bool(same.all()) else float("inf")
    top = max(float(a.abs().max()), float(b.abs().max())) if a.numel() else 0.0
    return float((a - b).abs().max()) / top if top > 0 else 0.0


class Recorder:
    def __init__(self, program):
        import torch
        import torch.distributed as dist
        from torch.distributed.tensor import DTensor

        self.torch, self.dist, self.DTensor, self.program = torch, dist, DTensor, program
        self.step, self.depth, self.hooked, self.local = -1, 0, set(), {}
        self.facts = {}
        self.rows = []
        recorder = self

        for name in ("SGD", "Adam", "AdamW"):
            self.wrap_step(getattr(torch.optim, name))
        from torch.distributed.optim import ZeroRedundancyOptimizer

        self.wrap_step(ZeroRedundancyOptimizer)
        original = torch.Tensor.backward

        def backward(tensor, *args, **kwargs):
            recorder.hook_parameters()
            return original(tensor, *args, **kwargs)

        torch.Tensor.backward = backward

    def wrap_step(self, cls):
        recorder, original = self, cls.step

        @functools.wraps(original)
        def step(optimizer, *args, **kwargs):
            if recorder.depth:
                return original(optimizer, *args, **kwargs)
            recorder.depth += 1
            recorder.trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
            try:
                recorder.step += 1
                recorder.before()
                out = original(optimizer, *args, **kwargs)
                recorder.after()
                return out
            finally:
                recorder.depth -= 1

        cls.step = step

    def roots(self):
        """The program's outermost modules that are no DDP wrappers."""
        modules = [
            m for m in gc.get_objects() if isinstance(m, self.torch.nn.Module) and self.is_own(m)
        ]
        inner = {id(c) for m in modules for c in m.modules() if c is not m}
        return [m for m in modules if id(m) not in inner]

    def is_own(self, module):
        return any(cls.__module__ == "program" for cls in type(module).__mro__)

    def model(self):
        """The one that the optimizer at work trains."""
        return next(m for m in self.roots() if any(id(p) in self.trained for p in m.parameters()))

    def plain(self, t):
        return t.to_local() if isinstance(t, self.DTensor) else t

    def place(self, t):
        """Ranks with the same place hold the same piece of the tensor."""
        if not isinstance(t, self.DTensor):
            return ()
        at = t.device_mesh.get_coordinate()
        return tuple((d, at[d]) for d, p in enumerate(t.placements) if not p.is_replicate())

    def hook_parameters(self):
        for name, p in (item for m in self.roots() for item in m.named_parameters()):
            if id(p) in self.hooked or not p.requires_grad or isinstance(p, self.DTensor):
                continue
            self.hooked.add(id(p))

            def hook(grad, name=name):
                known = self.local.get(name)
                self.local[name] = grad.detach().clone() if known is None else known + grad.detach()

            p.register_hook(hook)

    def gather(self, value):
        out = [None] * self.dist.get_world_size()
        self.dist.all_gather_object(out, value)
        return out

    def differing(self, tables):
        if self.dist.get_rank():
            return {}
        return self.compare(tables)

    def compare(self, tables):
        """name -> (largest relative difference, ranks unlike the first of their place)"""
        out = {}
        for name in sorted({n for t in tables for n in t}):
            groups = {}
            for rank, t in enumerate(tables):
                if name in t:
                    groups.setdefault(t[name][0], []).append((rank, t[name][1]))
            worst, ranks = 0.0, []
            for members in groups.values():
                for rank, value in members[1:]:
                    d = rel(members[0][1], value)
                    if d > TOLERANCE:
                        ranks.append(rank)
                        worst = max(worst, d)
            if ranks:
                out[name] = (worst, ranks)
        return out

    def tables(self, what):
        model, out = self.model(), {}
        if what == "buffer":
            for n, b in model.named_buffers():
                out[n] = ((), b.detach().clone())
        for n, p in model.named_parameters():
            if what == "parameter":
                out[n] = (self.place(p), self.plain(p.detach()).clone())
            if what == "gradient" and p.grad is not None:
                out[n] = (self.place(p.grad), self.plain(p.grad.detach()).clone())
        return self.gather(out)

    def note(self, key, names, **more):
        if names and key not in self.facts:
            self.facts[key] = {"step": self.step, "names": names, **more}

    def before(self):
        row = {"step": self.step}
        if self.step == 0:
            for what in ("parameter", "buffer"):
                d = self.differing(self.tables(what))
                self.note(f"{what}_differs_before_first_step", {n: v[0] for n, v in d.items()})
        grads = self.tables("gradient")
        d = self.differing(grads)
        self.note("gradient_differs", {n: v[0] for n, v in d.items()})
        local = self.gather({n: g.clone() for n, g in self.local.items()})
        self.note(
            "local_gradient_not_finite",
            {n: 0 for t in local for n, g in t.items() if not g.isfinite().all()},
            ranks=[
                r for r, t in enumerate(local) if any(not g.isfinite().all() for g in t.values())
            ],
        )
        self.note(
            "gradient_not_finite",
            {n: 0 for t in grads for n, (_, g) in t.items() if not g.isfinite().all()},
            ranks=[
                r for r, t in enumerate(grads) if any(not g.isfinite().all() for _, g in t.values())
            ],
        )
        factors = {}
        for name, (_, mine) in grads[0].items() if self.dist.get_rank() == 0 else ():
            if not all(name in t for t in local) or not all(name in t for t in grads):
                continue
            mean = sum(t[name].double() for t in local) / len(local)
            if (
                mean.isfinite().all()
                and float(mean.norm()) > 1e-9
                and mine.shape == mean.shape
                and mine.isfinite().all()
            ):
                f = float((mine.double() * mean).sum() / (mean * mean).sum())
                factors[name] = (
                    f,
                    float((mine.double() - f * mean).norm() / mean.norm() / max(abs(f), 1e-12)),
                )
        row["factors"] = factors
        self.local = {}
        self.rows.append(row)

    def after(self):
        for what in ("parameter", "buffer"):
            d = self.differing(self.tables(what))
            self.note(f"{what}_differs_after_step", {n: v[0] for n, v in d.items()})


def true_norm(recorder, parameters):
    """Every gradient element once: replicas once, shards all."""
    total = 0.0
    tables = recorder.gather(
        {
            i: (recorder.place(p.grad), recorder.plain(p.grad).detach().clone())
            for i, p in enumerate(parameters)
            if p.grad is not None
        }
    )
    for i in tables[0]:
        seen = {}
        for t in tables:
            seen.setdefault(t[i][0], t[i][1])
        total += sum(float(g.double().pow(2).sum()) for g in seen.values())
    return total**0.5


def watch_norm(recorder, module, name):
    original = getattr(module, name)
    recorder.norms = []

    @functools.wraps(original)
    def wrapped(parameters, max_norm, *args, **kwargs):
        if recorder.torch.is_tensor(parameters) or isinstance(parameters, recorder.torch.nn.Module):
            listed = (
                list(parameters.parameters())
                if isinstance(parameters, recorder.torch.nn.Module)
                else [parameters]
            )
            given = parameters
        else:
            listed = given = list(parameters)
        truth = true_norm(recorder, listed)
        out = original(given, max_norm, *args, **kwargs)
        said = float(out.full_tensor() if isinstance(out, recorder.DTensor) else out)
        recorder.norms.append(
            {"true": truth, "said": recorder.gather(said), "limit": float(max_norm)}
        )
        return out

    setattr(module, name, wrapped)


def watch_counts(recorder, module, router):
    """The tokens that every router really counted, summed over ranks and steps by the checker."""
    truth, recorder.counts = {}, []
    original = router.forward

    def forward(self, *args):
        weights, chosen = original(self, *args)
        truth[id(self)] = truth.get(id(self), 0) + chosen.numel()
        return weights, chosen

    router.forward = forward
    update = module.update_expert_bias

    def update_and_look(model, *args):
        out = update(model, *args)
        row = {}
        for n, m in model.named_modules():
            if isinstance(m, router):
                row[n] = (float(m.tokens_per_expert.sum()), sum(recorder.gather(truth[id(m)])))
        recorder.counts.append(row)
        return out

    module.update_expert_bias = update_and_look


def watch_sum_of_two(recorder, module):
    """The tied gradient after its exchange, against the sum of both holders' own gradients."""
    original, recorder.tied = module.reduce_embedding_gradient, []

    def wrapped(stage):
        own = recorder.gather(stage.word_embeddings.weight.grad.clone())
        original(stage)
        now = recorder.gather(stage.word_embeddings.weight.grad.clone())
        whole = own[0] + own[1]
        recorder.tied.append([rel(g, whole) for g in now] + [rel(now[1], own[1])])

    module.reduce_embedding_gradient = wrapped


def worker(name):
    import torch

    spec = importlib.util.spec_from_file_location("program", os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    if os.environ.get("CHECK_TRACE"):
        import faulthandler

        faulthandler.dump_traceback_later(int(os.environ["CHECK_TRACE"]))
    recorder = Recorder(module)
    for own in ("clip_gradients", "clip_by_global_norm"):
        if hasattr(module, own):
            watch_norm(recorder, module, own)
    watch_norm(recorder, torch.nn.utils, "clip_grad_norm_") if not hasattr(
        recorder, "norms"
    ) else None
    if hasattr(module, "update_expert_bias"):
        watch_counts(recorder, module, module.TopKRouter)
    if hasattr(module, "reduce_embedding_gradient"):
        watch_sum_of_two(recorder, module)

    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    module.main()
    assert not dist.is_initialized()
    if rank == 0:
        result = {
            "steps": recorder.step + 1,
            "facts": recorder.facts,
            "rows": recorder.rows,
            "norms": recorder.norms,
            "counts": getattr(recorder, "counts", []),
            "tied": getattr(recorder, "tied", []),
        }
        with open(os.environ["CHECK_OUT"], "w") as f:
            json.dump(result, f)


def measure(name):
    ranks = r_ranks(name)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        env = {**os.environ, "CHECK_OUT": out, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc_per_node={ranks}",
                __file__,
                "--worker",
                name,
            ],
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:])
            sys.exit(2)
        with open(out) as f:
            result = json.load(f)
    result["losses"] = [float(v) for v in re.findall(r"loss (\S+)", done.stdout)]
    return result


def short(names):
    items = sorted(names.items(), key=lambda kv: -kv[1])
    return f"{len(items)}: " + ", ".join(f"{n} {v:.2g}" for n, v in items[:6])


def describe(name, r):
    print(f"{name}: {r['steps']} steps, losses {r['losses']}")
    for key, fact in r["facts"].items():
        print(f"  {key} first at step {fact['step']} ranks {fact.get('ranks', '')}:")
        print(f"    {short(fact['names'])}")
    for s in (0, 1, r["steps"] - 1):
        f = r["rows"][s]["factors"]
        if f:
            low, *_, high = sorted((v[0], n) for n, v in f.items()) * (2 if len(f) == 1 else 1)
            off = max((v[1], n) for n, v in f.items())
            print(f"  step {s}: gradient of rank 0 / mean of the ranks' own:")
            print(f"    {low[0]:.6f} ({low[1]}) .. {high[0]:.6f} ({high[1]})")
            print(f"    residue up to {off[0]:.2g} ({off[1]})")
    if r["norms"]:
        ratios = [[s / n["true"] for s in n["said"]] for n in r["norms"] if n["true"] > 0]
        clipped = sum(max(n["said"]) > n["limit"] for n in r["norms"])
        low, high = min(map(min, ratios)), max(map(max, ratios))
        print(f"  norm / true norm: step 0 {[round(v, 5) for v in ratios[0]]}")
        print(f"    over all steps {low:.5f} .. {high:.5f}; clips in {clipped} steps")
        print(f"    step 0 {r['norms'][0]}")
    for s in (0, 1, 2, len(r["counts"]) - 1):
        if r["counts"]:
            print(f"  step {s}: counted / truly routed so far: {r['counts'][s]}")
    if r["tied"]:
        worst = [max(c) for c in zip(*r["tied"], strict=True)]
        print("  tied gradient against the sum of both (rank 0, rank 1), rank 1 against its own:")
        print(f"    step 0 {r['tied'][0]}, worst {worst}")


def verdict(name, r):
    """What of the label was not measured."""
    with open(os.path.join(HERE, "labels.json")) as f:
        label = json.load(f)[name]
    facts, kind, problems = r["facts"], label["kind"], []

    def need(condition, what):
        if not condition:
            problems.append(what)

    def seen(key, names=None, ranks=None):
        fact = facts.get(key)
        need(fact, f"{key}: never seen")
        if fact:
            need(fact["step"] == label["first_step"], f"{key} first at step {fact['step']}")
            need(
                sorted(fact["names"]) == sorted(label["tensors"] if names is None else names),
                f"{key}: {sorted(fact['names'])}",
            )
            need(ranks is None or fact.get("ranks") == ranks, f"{key}: ranks {fact.get('ranks')}")

    def never(*keys, but=()):
        for key in keys:
            for n in facts.get(key, {"names": {}})["names"]:
                need(any(part in n for part in but), f"{key}: {n}")

    parameters = ("parameter_differs_before_first_step", "parameter_differs_after_step")
    buffers = ("buffer_differs_before_first_step", "buffer_differs_after_step")
    finite = ("local_gradient_not_finite", "gradient_not_finite")
    ratios = [[v / n["true"] for v in n["said"]] for n in r["norms"] if n["true"] > 0]
    spread = [
        max(v[0] for v in f.values()) / min(v[0] for v in f.values())
        for row in r["rows"]
        if (f := row["factors"])
    ]

    if not label["broken"]:
        on_purpose = tuple(label["differs_on_purpose"])
        never(*parameters, *buffers, *finite, "gradient_differs", but=on_purpose)
        need(all(abs(v - 1) < 1e-3 for row in ratios for v in row), "the norm is not the true one")
        if "local_experts" not in "".join(on_purpose):
            need(
                all(v < 1.01 for v in spread),
                f"gradients are not all reduced alike: {max(spread, default=1)}",
            )
        need(any("differ" in k for k in facts) == bool(on_purpose), "differs_on_purpose")
    elif kind == "norm":
        never(*parameters, *buffers, *finite, "gradient_differs")
        need(
            ratios and any(abs(v - 1) > 0.1 for v in ratios[label["first_step"]]),
            "the norm is the true one",
        )
        need(any(max(n["said"]) > n["limit"] for n in r["norms"]), "nothing is clipped")
    elif kind == "replicated_buffer":
        seen("buffer_differs_before_first_step")
    elif kind == "replicated_parameter":
        seen("parameter_differs_before_first_step")
        never(*finite, "gradient_differs", *buffers)
    elif kind in ("reduction_missing", "tied_reduced_once"):
        seen("gradient_differs")
        seen("parameter_differs_after_step")
        never("parameter_differs_before_first_step", *buffers, *finite)
        if kind == "tied_reduced_once":
            need(
                all(t[0] < 1e-4 and t[1] > 1e-2 and t[2] < 1e-4 for t in r["tied"]),
                "the tied gradients",
            )
    elif kind == "reduction_doubled":
        never(*parameters, *buffers, *finite, "gradient_differs")
        for row in r["rows"]:
            for n, (factor, _) in row["factors"].items():
                need(
                    abs(factor - (r_ranks(name) if n in label["tensors"] else 1)) < 1e-3,
                    f"step {row['step']} {n}: factor {factor}",
                )
    elif kind == "count_reduced_in_place":
        # at the optimizer's step the counters hold what their exchange has not seen yet
        never(*parameters, *finite, "gradient_differs")
        never(*buffers, but=label["tensors"])
        wrong = [
            i
            for i, row in enumerate(r["counts"])
            if any(abs(said / true - 1) > 1e-6 for said, true in row.values())
        ]
        need(wrong and wrong[0] == label["first_step"], f"counts wrong from step {wrong[:1]}")
    elif kind == "nan_of_one_rank":
        seen("gradient_not_finite")
        fact = facts.get("local_gradient_not_finite", {"ranks": []})
        need(
            set(label["ranks_at_fault"]) <= set(fact["ranks"]),
            f"local gradients not finite on ranks {fact['ranks']}",
        )
        never(*parameters, *buffers, "gradient_differs")
    elif kind == "dropout_seeds":
        seen("gradient_differs")
        never("parameter_differs_before_first_step", *buffers, *finite)
    else:
        seen("parameter_differs_after_step")
        never("parameter_differs_before_first_step", "gradient_differs", *buffers, *finite)
    if label["loss_falls"]:
        need(r["losses"][-1] < r["losses"][0], f"the loss does not fall: {r['losses']}")
    return problems


def r_ranks(name):
    with open(os.path.join(HERE, name + ".py")) as f:
        return int(re.search(r"ranks: (\d+)", f.readline()).group(1))


def main():
    names = sys.argv[1:]
    if names == ["all"]:
        names = sorted(f[:-3] for f in os.listdir(HERE) if re.fullmatch(r"r\d\d\.py", f))
    bad = 0
    for name in names:
        result = measure(name)
        describe(name, result)
        sys.stdout.flush()
        problems = verdict(name, result)
        for p in problems:
            print(f"  NOT BORNE OUT: {p}")
        bad += bool(problems)
        print("  label borne out" if not problems else "")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2])
    else:
        main()
