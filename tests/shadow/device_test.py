"""Shadow steps of tensors that lie on a device: figures that come to the host later, and rows that
wait for them. The tensors are the CPU's, taken for a device's (as_device).
"""

from __future__ import annotations

import ctypes
import math
import pathlib
import sys

import pytest
import torch
from as_device import as_device
from mpnanny import MixedPrecisionNanny, _core
from mpnanny.fp64 import comparison, device_figures
from mpnanny.fp64.comparison import Comparison, as_read
from mpnanny.fp64.device_figures import MOST_TENSORS, DeviceFigures
from mpnanny.operators import modes
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

PACKAGE = pathlib.Path(_core.__file__).parents[1]
ON_HOST = device_figures._on_host
SHADOW = ("mpnanny.shadow", "mpnanny.fp64", "mpnanny.relations")
MOST_OPERATORS = 3.0  # beside each operator of the training
MOST_WITH_KERNELS = 1.6  # their launches are counted as operators


@pytest.fixture
def driver() -> ctypes.CDLL:
    library = ctypes.CDLL(str(PACKAGE.parent / "libmpn_stand_in_driver.so"))
    library.stand_in_reset()
    return library


@pytest.fixture(params=["kernels", "operators"], autouse=True)
def kernels(request: pytest.FixtureRequest) -> bool:
    """Comparisons are made by the device kernels on the stand-in for CUDA's driver, or by torch's
    operators.
    """
    if request.param == "kernels":
        request.getfixturevalue("stand_in")
    return request.param == "kernels"


def tensors() -> list[torch.Tensor]:
    torch.manual_seed(0)
    made = [
        torch.randn(3, 5).half(),
        torch.randn(4, 4).bfloat16().t(),
        torch.randn(1),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(100).to(torch.float8_e4m3fn),
        torch.randn(7).double(),
        torch.randn(4, 4)[:, 1],
        torch.randn(6, dtype=torch.complex64),
        torch.randn(5000).half(),
    ]
    made[0][1, :3] = torch.tensor([math.nan, math.inf, -math.inf])
    made[8][:4000] = 0
    return made


def references(held: list[torch.Tensor]) -> list[torch.Tensor]:
    made = [
        each.to(torch.complex128 if each.is_complex() else torch.float64) * 1.001 for each in held
    ]
    made[0][0, 0], made[1][1, 1] = math.inf, math.nan
    made[8][:4000] = torch.randn(4000, dtype=torch.float64) * 1e-9
    made[8][:100] = 1.0
    return made


def agree(one: Comparison, other: Comparison) -> None:
    for name, mine, its in zip(Comparison._fields, one, other, strict=True):
        assert mine == its or math.isclose(mine, its, rel_tol=1e-9), name


def test_many_are_compared_together_as_each_by_itself():
    held = tensors()
    device = DeviceFigures()
    for slot, pair in enumerate(zip(held, references(held), strict=True)):
        device.compare(slot, *as_read(*pair))
    arrived = dict(device.arrive().comparisons)
    assert not device.waits and len(arrived) == len(held)
    for slot, pair in enumerate(zip(held, references(held), strict=True)):
        agree(Comparison(*arrived[slot]), comparison.compare(*pair))


def test_as_many_as_there_are():
    device = DeviceFigures()
    count = 2 * MOST_TENSORS + 3
    for slot in range(count):
        device.compare(slot, torch.tensor([slot, 1.0]), torch.tensor([slot + 1.0, 1.0]).double())
    arrived = device.arrive().comparisons
    assert [slot for slot, _ in arrived] == list(range(count))
    assert [Comparison(*figures).max_held for _, figures in arrived] == [
        max(slot, 1.0) for slot in range(count)
    ]


def test_what_is_about_to_be_written_is_compared_before():
    device = DeviceFigures()
    held, reference = torch.ones(4), torch.ones(4, dtype=torch.float64) * 2
    device.compare(0, held, reference)
    device.before_write([held.untyped_storage()._cdata])
    held.zero_()
    reference.zero_()
    found = Comparison(*device.arrive().comparisons[0][1])
    assert (found.max_held, found.max_reference) == (1, 2)


def test_samples_are_as_they_were():
    device = DeviceFigures()
    held, reference = torch.ones(4), torch.ones(4, dtype=torch.float64)
    device.sample(reference, held.untyped_storage()._cdata)
    device.before_write([held.untyped_storage()._cdata])
    reference.zero_()
    assert device.arrive().samples[0].tolist() == [1.0] * 4


def test_what_was_written_behind_its_back_has_no_figures():
    device = DeviceFigures()
    held = torch.ones(4)
    device.compare(0, held, torch.ones(4, dtype=torch.float64))
    device.compare(1, torch.ones(4), torch.ones(4, dtype=torch.float64))
    held.zero_()
    assert [slot for slot, _ in device.arrive().comparisons] == [1]


def test_a_reference_that_alone_is_not_finite_becomes_what_is_held():
    device = DeviceFigures()
    held = [torch.ones(4), torch.tensor([math.nan, 1.0]), torch.full((3,), 2.0)]
    made = [each.double() for each in held]
    made[0][2], made[1][1] = math.inf, math.inf  # the second one is not finite as held, either
    made[2] += 1
    for slot, (one, other) in enumerate(zip(held, made, strict=True)):
        device.compare(slot, one, other, restarts=True)
    arrived = dict(device.arrive().comparisons)
    assert (
        made[0].tolist() == [1.0] * 4 and made[1][1] == math.inf and made[2].tolist() == [3.0] * 3
    )
    assert Comparison(*arrived[0]).reference_only == 1


@pytest.mark.parametrize("size", [1e-320, 1e-3, 1e155, 1e300])
def test_sizes_that_squares_do_not_have_room_for(size):
    held = torch.tensor([1.5, -1.0, 0.0], dtype=torch.float64) * size
    reference = torch.tensor([2.0, -2.0, 2.0], dtype=torch.float64) * size
    device = DeviceFigures()
    device.compare(0, held, reference)
    device.compare(1, torch.ones(2), torch.ones(2, dtype=torch.float64))
    arrived = dict(device.arrive().comparisons)
    agree(Comparison(*arrived[0]), comparison.compare(held, reference))
    assert Comparison(*arrived[1]).error == 0


class Counted(TorchDispatchMode):
    """What reaches the device: operators that compute, and reads that wait for it. Lies below the
    shadow's mode. Of the CPU's tensors a copy to the host is no operator: it is counted where it is
    made, and what is then read of it is not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []
        self.reads: list[str] = []
        self._arrived: set[int] = set()  # memory

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        returns = func._schema.returns
        is_view = any(
            each.alias_info is not None and not each.alias_info.is_write for each in returns
        )
        # What makes memory without values, or only brings a number to the host, runs nothing.
        idle = any(each in str(func) for each in ("empty", "_local_scalar_dense"))
        if not is_view and not idle:
            self.operators.append(str(func))
        return made

    def arrives(self, tensors):
        self.reads.append("arrives")
        copies = list(ON_HOST(tensors))
        self._arrived |= {each.untyped_storage()._cdata for each in copies}
        return iter(copies)

    def reading(self, name):
        real = getattr(torch.Tensor, name)

        def read(tensor, *args):
            by = sys._getframe(1).f_globals["__name__"]
            if by.startswith(SHADOW) and tensor.untyped_storage()._cdata not in self._arrived:
                self.reads.append(f"{name} {by}")
            return real(tensor, *args)

        return read


class _Attention(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm, self.all = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(self.norm(x)).chunk(3, -1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.down(nn.functional.gelu(self.up(x)))


def transformer() -> nn.Module:
    body = [_Attention() for _ in range(4)]
    return nn.Sequential(nn.Embedding(50, 32), *body, nn.LayerNorm(32), nn.Linear(32, 50))


def counted_step(db: str, shadow: str, on_device: bool = True) -> tuple[list, list]:
    """The operators that the device runs for a step of a training, and the reads that wait for it:
    from where the third step ends to where the fourth one does.
    """
    counted = Counted()
    modes._ours.add(counted)  # which would step aside for a mode of the program
    torch.manual_seed(0)
    model = transformer()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        counted,
        MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True),
    ):
        if on_device:
            as_device(monkeypatch.setattr)
        for step in range(4):
            ids = torch.randint(50, (4, 17))
            if step == 3:
                counted.operators.clear()
                monkeypatch.setattr(device_figures, "_on_host", counted.arrives)
                for name in ("item", "tolist", "__bool__", "__float__"):
                    monkeypatch.setattr(torch.Tensor, name, counted.reading(name))
            optimizer.zero_grad()
            out = model(ids[:, :-1])
            nn.functional.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()
        operators, reads = list(counted.operators), list(counted.reads)
    return operators, reads


def test_a_step_waits_for_the_device_four_times_at_most(db):
    _, reads = counted_step(db, "every=1")
    assert 1 <= len(reads) <= 4, reads


def test_an_operator_makes_a_few_others_run(db, tmp_path, kernels, driver):
    plain, _ = counted_step(db, "off", on_device=False)
    shadowed, _ = counted_step(str(tmp_path / "shadowed.db"), "every=1")
    launches = driver.stand_in_made(b"cuLaunchKernel") / 4
    assert bool(launches) == kernels
    beside = (len(shadowed) + launches - len(plain)) / len(plain)
    assert 1 <= beside <= (MOST_WITH_KERNELS if kernels else MOST_OPERATORS), beside
