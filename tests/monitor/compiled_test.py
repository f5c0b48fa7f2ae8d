"""`compiled="watch"`: operators in the graphs of torch.compile watch the modules that it runs."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import PACKAGE, Mlp, cross_entropy
from mpnanny import MixedPrecisionNanny
from mpnanny.base.device_kernels import DeviceKernels
from mpnanny.hooks import device_table, graph_operators, graphs
from mpnanny.monitor import session
from mpnanny.operators.modes import compiles
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 3
Runs = Callable[[nn.Module], Any]
GRADIENTS = 2  # kind


class Block(nn.Module):
    def __init__(self, width: int = 8, factor: float = 1.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.shrink = nn.Linear(2 * width, width)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.shrink(self.act(self.grow(self.norm(x)) * self.factor))


class Net(nn.Module):
    """`reentrant`: blocks are checkpointed, so or so; None: they are not."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.leave = nn.Linear(8, 3)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.leave(x)


def whole(**how: Any) -> Runs:
    return lambda model: torch.compile(model, fullgraph=True, **how)


def in_place(model: nn.Module) -> Any:
    model.compile(backend="aot_eager", fullgraph=True)
    return model


def blocks_in_place(model: Any) -> Any:
    for block in model.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
    return model


def blocks_wrapped(model: Any) -> Any:
    runs = [torch.compile(block, backend="aot_eager", fullgraph=True) for block in model.blocks]

    def run(x: torch.Tensor) -> torch.Tensor:
        x = model.enter(x)
        for block in runs:
            x = block(x)
        return model.leave(x)

    return run


def function(model: nn.Module) -> Any:
    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(x: torch.Tensor) -> torch.Tensor:
        return model(x) * 1.0

    return run


class Course:
    """A training; `watch` are a monitor's options, None: there is none."""

    def __init__(
        self,
        db: Any,
        compiles: Runs = lambda model: model,
        watch: dict[str, Any] | None = None,
        make: Callable[[], nn.Module] = Net,
        late: bool = True,
        blocks: bool = False,
        steps: int = STEPS,
    ) -> None:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)
        self.model = make()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        runs = None if late else compiles(self.model)
        nanny = None
        if watch is not None:
            options = {"trace_interval": 2, "quiet": True, "db": db, **watch}
            nanny = MixedPrecisionNanny(self.model, optimizer, **options)
        runs = compiles(self.model) if late else runs
        self.losses = []
        generator = torch.Generator().manual_seed(1)
        for step in range(steps):
            x = torch.randn(4, 8, generator=generator)

            def train(x: torch.Tensor = x) -> None:
                optimizer.zero_grad()
                loss = cross_entropy(runs(x), torch.tensor([0, 1, 2, 0]))
                loss.backward()
                optimizer.step()
                self.losses.append(loss.item())

            if blocks and nanny is not None:
                with nanny.step(step):
                    train()
            else:
                train()
        self.graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        self.breaks = dict(torch._dynamo.utils.counters["graph_break"])
        self.notes = []
        if nanny is not None:
            nanny.close()
            self.notes = nanny.summary()["notes"]
        self.weights = [each.detach().clone() for each in self.model.parameters()]

    def is_same(self, other: Course) -> bool:
        """Bit for bit."""
        pairs = zip(self.weights, other.weights, strict=True)
        return self.losses == other.losses and all(torch.equal(*pair) for pair in pairs)


def samples(database: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = database().rows("SELECT s.*, l.name FROM tensor_stats s JOIN layer l USING (layer_id)")
    return {(each["step"], each["name"], each["kind"], each["slot"]): each for each in found}


WAYS: dict[str, tuple[Runs, dict[str, Any]]] = {
    "model": (whole(backend="aot_eager"), {}),
    "before": (whole(backend="aot_eager"), {"late": False}),
    "blocks": (whole(backend="aot_eager"), {"blocks": True}),
    "eager backend": (whole(backend="eager"), {}),
    "in place": (in_place, {}),
    "layers in place": (blocks_in_place, {}),
    "wrapped layers": (blocks_wrapped, {}),
    "a function": (function, {}),
    "dynamic": (whole(backend="aot_eager", dynamic=True), {}),
    "checkpoint": (whole(backend="aot_eager"), {"make": lambda: Net(reentrant=False)}),
    "reentrant checkpoint": (whole(backend="aot_eager"), {"make": lambda: Net(reentrant=True)}),
    "layers in checkpoints": (blocks_in_place, {"make": lambda: Net(reentrant=False)}),
}


@pytest.mark.parametrize("way", WAYS)
def test_compiled_modules_give_the_rows_of_eager_ones(way, tmp_path, database, db):
    compiles, options = WAYS[way]
    plain = Course(db, compiles, **options)
    watched = Course(db, compiles, {"compiled": "watch"}, **options)
    assert watched.graphs == plain.graphs == 1
    assert watched.breaks == {}
    assert watched.losses == pytest.approx(plain.losses, rel=1e-5)
    found = samples(database)
    os.unlink(db)
    Course(db, watch={}, blocks=options.get("blocks", False))  # a checkpoint may hide gradients
    wanted = samples(database)
    assert {each[0] for each in wanted} == {0, 2}
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        for figure in ("absmax", "mean", "l2", "nan", "posinf", "finite"):
            if figure in row and row[figure] is not None:
                assert found[key][figure] == pytest.approx(row[figure], rel=1e-4, abs=1e-6), key
    assert sum("compiled modules are watched" in note for note in watched.notes) == 1
    assert not any("never ran" in note for note in watched.notes)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"mode": "reduce-overhead"}, {"dynamic": True}])
def test_inductor_keeps_one_graph(how, db, database):
    plain, watched = Course(db, whole(**how)), Course(db, whole(**how), {"compiled": "watch"})
    assert watched.graphs == plain.graphs == 1 and watched.breaks == {}
    assert watched.losses == pytest.approx(plain.losses, rel=1e-5)
    found = samples(database)
    names = {name for name, module in watched.model.named_modules() if not [*module.children()]}
    for kind in (0, 1, GRADIENTS):
        assert {key[1] for key in found if key[:1] == (2,) and key[2] == kind} == names


@pytest.mark.parametrize("watch", [{}, {"compiled": "off"}])
def test_without_it_compiled_trainings_are_left_alone(watch, db):
    plain = Course(db, whole(backend="aot_eager"))
    watched = Course(db, whole(backend="aot_eager"), watch)
    assert watched.is_same(plain)
    assert watched.graphs == plain.graphs == 1
    assert any("torch.compile runs them" in note for note in watched.notes)


class Overflows(nn.Module):
    """From the second call on something is too large for FP16, in one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.grow = Grow()
        self.leave = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.grow(self.enter(x)).clamp(-10, 10))


class Grow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.factor.clone()
        self.factor.mul_(1e5)
        return (x * factor).half().float()


@pytest.mark.parametrize("blocks", [False, True])
def test_a_layer_that_breaks_is_named_with_its_step(blocks, db, database):
    options = {"compiled": "watch", "trace_interval": 1}
    Course(db, whole(backend="aot_eager"), options, Overflows, blocks=blocks, steps=3)
    alerts = database().alerts(type="INF")
    assert [(each["layer"], each["step"]) for each in alerts][:1] == [("grow", 1)]


class Shared(nn.Module):
    """One module twice, and one that is written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.leave = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(self.act(self.enter(x)))
        y = self.same(x)
        y += 1  # x, too
        return self.leave(x * y)


def test_calls_of_one_module_are_told_apart_and_aliases_stay(db, database):
    plain = Course(db, make=Shared)
    watched = Course(db, whole(backend="aot_eager"), {"compiled": "watch"}, Shared)
    assert watched.losses == pytest.approx(plain.losses, rel=1e-6)
    found = samples(database)
    os.unlink(db)
    Course(db, watch={}, make=Shared)
    wanted = samples(database)
    for kind in (1, GRADIENTS):
        slots = sorted(key[3] for key in found if key[:3] == (0, "enter", kind))
        assert slots == [0, 256]
    for slot in (0, 256):
        key = (0, "enter", 1, slot)
        assert found[key]["mean"] == pytest.approx(wanted[key]["mean"], rel=1e-5)
    one, two = (found[0, "enter", GRADIENTS, slot]["l2"] for slot in (0, 256))
    assert one != two


class Tuples(nn.Module):
    """Outputs of several tensors, arguments by name, what needs no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.leave = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(2, 2, 8)
        mask = torch.tensor([[0.0, -math.inf], [0.0, 0.0]])
        y, _ = self.attend(query=x, key=x, value=x, attn_mask=mask)
        return self.leave(y.reshape(4, 8))


def test_outputs_of_several_tensors(db, database):
    plain = Course(db, make=Tuples)
    watched = Course(db, whole(backend="aot_eager"), {"compiled": "watch"}, Tuples)
    assert watched.losses == pytest.approx(plain.losses, rel=1e-5)
    assert watched.graphs == 1
    assert any(key[1] == "leave" and key[2] == 1 for key in samples(database))


def test_evaluations_have_graphs_without_operators(db):
    """And between two steps they are no part of a step."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, compiled="watch")
    compiled = torch.compile(model.eval(), backend=backend, fullgraph=True)
    with torch.no_grad():
        compiled(torch.randn(2, 8))
    assert "mpnanny" not in graphs[0].code
    compiled(torch.randn(2, 8))  # with gradients: it could be a training
    assert "mpnanny" in graphs[1].code
    assert nanny.newest_step == -1
    nanny.close()


def test_what_was_compiled_before_is_watched_and_after_the_end_nothing_is(db, database):
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True)

    def train() -> None:
        optimizer.zero_grad()
        compiled(torch.randn(4, 8)).sum().backward()
        optimizer.step()

    train()
    for _ in range(2):  # a second monitor as well as the first
        nanny = MixedPrecisionNanny(
            model, optimizer, db=db, quiet=True, trace_interval=1, compiled="watch"
        )
        train()
        train()
        nanny.close()
        assert any("compiled again" in note for note in nanny.summary()["notes"])
        assert any(key[1:3] == ("middle", GRADIENTS) for key in samples(database))
        train()
        os.unlink(db)
    assert ["mpnanny" in each.code for each in graphs] == [False, True, False, True, False]


def test_steps_in_other_threads_are_heard(db, database):
    def run() -> None:
        Course(db, whole(backend="aot_eager"), {"compiled": "watch"}, steps=2)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert any(key[1] == "blocks.1.act" for key in samples(database))


def test_exported_and_transformed_models_are_left_alone(db):
    model = Net()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, compiled="watch")
    exported = torch.export.export(model, (torch.randn(4, 8),))
    assert "mpnanny" not in exported.graph_module.code
    run = torch.compile(torch.func.vmap(lambda x: model(x)), backend="aot_eager", fullgraph=True)
    run(torch.randn(2, 4, 8)).sum().backward()
    nanny.close()


def test_a_model_with_such_hooks_is_copied_and_saved(db, tmp_path):
    import copy
    import pickle

    model = Net()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, compiled="watch")
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        run = torch.compile(made, backend="aot_eager", fullgraph=True)
        run(torch.randn(4, 8)).sum().backward()
    assert nanny.newest_step == -1
    nanny.close()


def test_a_wrong_word_raises(db):
    with pytest.raises(ValueError, match="compiled 'on' is not one of off, watch"):
        MixedPrecisionNanny(Net(), db=db, compiled="on")


def too_old(monkeypatch) -> None:
    monkeypatch.delattr(torch.library, "register_fake")


def untraceable(monkeypatch) -> None:
    def hook(*_: Any) -> None:
        torch._dynamo.graph_break()

    monkeypatch.setattr(graph_operators, "trace", hook)


def left_out(monkeypatch) -> None:
    monkeypatch.setattr(graph_operators, "trace", lambda *_: None)


@pytest.mark.parametrize(
    ("torch_is", "note"),
    [
        (too_old, "too old for it, it needs 2.4"),
        (untraceable, "cannot trace it (Unsupported)"),
        (left_out, "leaves out a gradient and an output"),
    ],
)
def test_a_torch_that_cannot_do_it_is_told_and_the_training_left_alone(
    torch_is, note, db, monkeypatch
):
    plain = Course(db, whole(backend="aot_eager"))
    monkeypatch.setattr(graph_operators, "unusable", graph_operators.unusable.__wrapped__)
    monkeypatch.setattr(session, "unusable", graph_operators.unusable)
    torch_is(monkeypatch)
    watched = Course(db, whole(backend="aot_eager"), {"compiled": "watch"})
    assert any("not watched" in each and note in each for each in watched.notes)
    assert watched.is_same(plain) and watched.graphs == plain.graphs


def test_trying_it_is_no_use_of_the_compiler(db, database):
    """And draws no random numbers."""
    graph_operators.unusable.cache_clear()
    model, state = Net(), torch.get_rng_state()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, compiled="watch")
    assert torch.equal(torch.get_rng_state(), state)
    assert not compiles()
    assert not any("compiled again" in note for note in nanny.summary()["notes"])
    nanny.close()


# --- on a device: tensors of the CPU, taken for a device's ---


@pytest.fixture(params=["kernels", "operators"])
def kernels(request, tmp_path, monkeypatch) -> str:
    """The stand-ins of CUDA's driver and NVRTC (tests/device/stand_in), or none."""
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    stand_in = PACKAGE.parent / "libmpn_stand_in_nvrtc.so"
    (folder / "libnvrtc.so.12").symlink_to(stand_in)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    driver = str(PACKAGE.parent / "libmpn_stand_in_driver.so")
    made = DeviceKernels([str(tmp_path)], driver if request.param == "kernels" else "libcuda.so.9")
    monkeypatch.setattr(graphs, "kernels_of_process", lambda: made)
    return request.param


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("lag", [2], indirect=True)
def test_figures_of_a_device_are_the_same_and_late(lag, kernels, blocks, db, database):
    compiles = whole(backend="aot_eager")
    watched = Course(db, compiles, {"compiled": "watch"}, blocks=blocks)
    found = samples(database)
    os.unlink(db)
    Course(db, watch={}, blocks=blocks)
    wanted = samples(database)
    assert watched.graphs == 1
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        assert found[key]["numel"] == row["numel"]
        for figure in ("absmax", "mean", "l2"):
            assert found[key][figure] == pytest.approx(row[figure], rel=1e-4, abs=1e-6), key


@pytest.mark.parametrize("lag", [2], indirect=True)
def test_a_layer_that_breaks_on_a_device_is_named(lag, kernels, db, database):
    options = {"compiled": "watch", "trace_interval": 1}
    Course(db, whole(backend="aot_eager"), options, Overflows, steps=4)
    alerts = database().alerts(type="INF")
    assert [(each["layer"], each["step"]) for each in alerts][:1] == [("grow", 1)]


class Replayed:
    """Stands for a CUDA graph: what was launched while it was made is launched again, on the same
    addresses, and no Python of the program's runs.
    """

    def __init__(self, kernels: DeviceKernels, monkeypatch: Any) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.made = False
        self._kernels = kernels
        self._launch = kernels.launch
        monkeypatch.setattr(kernels, "launch", self._keep)
        monkeypatch.setattr(device_table.DeviceTable, "is_capturing", lambda _: self.made)

    def _keep(self, *arguments: Any) -> bool:
        if self.made:
            self.launches.append(arguments)
            return True
        return self._launch(*arguments)

    def run(self) -> None:
        for each in self.launches:
            assert self._launch(*each)


@pytest.mark.parametrize("lag", [2], indirect=True)
@pytest.mark.parametrize("kernels", ["kernels"], indirect=True)
@pytest.mark.parametrize("blocks", [False, True])
def test_what_a_cuda_graph_runs_is_measured_while_the_gate_is_open(
    lag, kernels, blocks, db, database, monkeypatch
):
    """The outputs of two layers and a gradient, launched again in each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = Replayed(graphs.kernels_of_process(), monkeypatch)
    with MixedPrecisionNanny(
        model, optimizer, db=db, quiet=True, trace_interval=3, compiled="watch"
    ) as nanny:
        hooks = [next(iter(each._forward_hooks.values()))._in_graph for each in model]
        rows = [each.marks[torch.device("cpu")] for each in hooks]
        one, two, gradient = torch.ones(2, 4), torch.full((2, 4), 2.0), torch.full((2, 4), 3.0)
        watch, derived = torch.ops.mpnanny.watch, torch.ops.mpnanny.watch_gradient

        def run() -> None:
            watch(rows[0].table, rows[0].row, [one], [two])
            watch(rows[1].table, rows[1].row, [two], [one])

        def train() -> None:
            optimizer.zero_grad()
            if not graph.launches:
                run()  # a first time without a graph, in which the step begins
                graph.made = True
                run()
                derived(rows[1].row, gradient, 0)
                graph.made = False
            graph.run()
            torch.nn.functional.linear(torch.ones(2, 4), model[0].weight).sum().backward()
            optimizer.step()

        for step in range(8):
            two.fill_(2.0 + step)
            if blocks:
                with nanny.step(step):
                    train()
            else:
                train()
    found = samples(database)
    steps = sorted({key[0] for key in found if key[1:3] == ("0", 1)})
    assert steps[-2:] == [3, 6]
    for step in (3, 6):
        assert found[step, "0", 1, 0]["absmax"] == 2.0 + step
        assert found[step, "1", 0, 0]["absmax"] == 2.0 + step
        assert found[step, "1", GRADIENTS, 0]["absmax"] == 3.0
    assert not any("trouble" in note for note in nanny.summary()["notes"])
