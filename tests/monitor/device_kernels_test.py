"""`_core.DeviceKernels` on the stand-ins for CUDA's driver and NVRTC (tests/device/stand_in):
tensors of the CPU, taken for a device's.
"""

from __future__ import annotations

import math
import time

import pytest
import torch
from conftest import PACKAGE
from mpnanny import _core
from mpnanny.base.device_kernels import KERNELS, DeviceKernels, Launches, slots_of

DRIVER = PACKAGE.parent / "libmpn_stand_in_driver.so"
NVRTC = PACKAGE.parent / "libmpn_stand_in_nvrtc.so"
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2]


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc.so.12").symlink_to(NVRTC)
    return str(tmp_path)


@pytest.fixture
def kernels(wheels):
    return _core.DeviceKernels([wheels], "", str(DRIVER))


@pytest.fixture
def launches(wheels):
    return Launches(DeviceKernels([wheels], str(DRIVER)), torch.device("cpu"))


def row(slot: int, *tensors: torch.Tensor, options: int = 0) -> tuple[int, ...]:
    cells = [slot, options]
    for each in tensors:
        cells += [each.data_ptr(), _core.DEVICE_DTYPES[str(each.dtype).removeprefix("torch.")]]
    return (tensors[0].numel(), *cells)


def run(kernels, kernel: str, rows: list[tuple[int, ...]]) -> list[tuple]:
    slots = torch.zeros(len(rows) * _core.DEVICE_SLOT_BYTES[kernel], dtype=torch.uint8)
    scratch = torch.zeros(_core.device_scratch_bytes(kernel, rows), dtype=torch.uint8)
    launches = kernels.launch(
        kernel, rows, slots.data_ptr(), len(rows), scratch.data_ptr(), scratch.numel(), 0
    )
    together = 250 if kernel == "flags" else 64
    assert launches == math.ceil(len(rows) / together) * (2 if kernel == "compare" else 1)
    return _core.device_slots(kernel, bytes(slots.numpy()))


def test_flags_and_figures_of_many_tensors(kernels):
    torch.manual_seed(1)
    tensors = [(torch.randn(7 * i) * 3).to(DTYPES[i % 5]) for i in range(130)]
    tensors[100][5], tensors[101][6] = math.nan, -math.inf
    rows = [row(i, each) for i, each in enumerate(tensors)]
    flags, figures = run(kernels, "flags", rows), run(kernels, "figures", rows)
    for each, flag, (numel, counts, exponents) in zip(tensors, flags, figures, strict=True):
        values = each.double()
        finite = values[values.isfinite()]
        assert flag[0] == numel == sum(exponents) == each.numel()
        assert flag[1:4] == tuple(counts[:3])
        assert flag[1:4] == (
            int(values.isnan().sum()),
            int((values == math.inf).sum()),
            int((values == -math.inf).sum()),
        )
        if finite.numel():
            assert flag[4:6] == (finite.min().item(), finite.max().item()) == tuple(counts[5:7])
        assert flag[6] == pytest.approx(finite.square().sum().item(), rel=1e-11)
        assert counts[10] == pytest.approx(flag[6], rel=1e-11)


def test_comparisons_and_changes_are_the_cpus(kernels):
    torch.manual_seed(2)
    held = [torch.randn(1000 + i).to(DTYPES[i % 5]) for i in range(70)]
    references = [each.double() * 1.001 for each in held]
    held[3][7], held[4][0] = math.inf, 0.0
    rows = [row(i, *pair) for i, pair in enumerate(zip(held, references, strict=True))]
    for found, *pair in zip(run(kernels, "compare", rows), held, references, strict=True):
        wanted = _core.compare(*pair)
        if wanted is None:
            continue
        assert found[:10] == wanted[:10]
        assert found[10:13] == pytest.approx(wanted[10:13], rel=1e-11)
        assert found[13:] == wanted[13:]
    after = [each + 0.5 for each in held[:2]]
    now = [each + 0.25 for each in references[:2]]
    moved = [row(i, held[i], after[i], references[i], now[i]) for i in range(2)]
    for i, found in enumerate(run(kernels, "change", moved)):
        wanted = _core.compare_change(held[i], after[i], references[i], now[i])
        assert found[:3] == wanted[:3]
        assert found[3:] == pytest.approx(wanted[3:], rel=1e-11)


def test_a_reference_is_put_right_where_the_row_says_so(kernels):
    held = torch.tensor([1.0, 2.0])
    references = [torch.tensor([1.0, math.nan], dtype=torch.float64) for _ in range(2)]
    restarts = _core.DEVICE_RESTARTS
    run(
        kernels,
        "compare",
        [row(0, held, references[0]), row(1, held, references[1], options=restarts)],
    )
    assert math.isnan(references[0][1].item())
    assert references[1].tolist() == [1.0, 2.0]


def test_what_cannot_be_launched_is_told(kernels):
    tensor = torch.ones(4)
    with pytest.raises(ValueError, match="no kernel"):
        kernels.launch("figure", [], 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="slot 1 of 1"):
        kernels.launch("flags", [row(1, tensor)], 8, 1, 8, 1 << 30, 0)
    with pytest.raises(ValueError, match="unknown dtype"):
        kernels.launch("flags", [(4, 0, 0, tensor.data_ptr(), 77)], 8, 1, 8, 1 << 30, 0)
    with pytest.raises(ValueError, match="a row is"):
        kernels.launch("flags", [(4, 0, 0)], 8, 1, 8, 1 << 30, 0)
    with pytest.raises(RuntimeError, match="knows no sm_70"):
        kernels.compile("flags", 70)
    with pytest.raises(RuntimeError, match=r"driver is not here: libcuda\.so\.9"):
        _core.DeviceKernels([], "", "libcuda.so.9")


def test_tensors_of_any_layout_are_launched(launches):
    torch.manual_seed(3)
    base = torch.randn(40, 30)
    layouts = [base, base.t(), base[:, ::2], base[3:, 4:], base.expand(2, 40, 30), base[0, 0]]
    images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    for each in [*layouts, images]:
        (flags,) = slots_of("flags", launches.run("flags", [[each]]))
        assert flags[0] == each.numel()
        assert flags[4:6] == (each.min().item(), each.max().item())
        assert flags[6] == pytest.approx(each.double().square().sum().item(), rel=1e-11)
    pairs = [[each, each.double().contiguous() * 1.5] for each in layouts]
    pairs += [[base.t(), base.t().double() * 1.5], [images, images.double() * 1.5]]
    for found, pair in zip(slots_of("compare", launches.run("compare", pairs)), pairs, strict=True):
        wanted = _core.compare(*pair)
        assert found[:10] == wanted[:10]
        assert found[10:] == pytest.approx(wanted[10:], rel=1e-11)


def test_scratch_memory_grows_and_serves_every_kernel(launches):
    small, large = torch.ones(3), torch.ones(1_000_000)
    for each in (small, large, small):
        (figures,) = slots_of("figures", launches.run("figures", [[each]]))
        assert figures[1][4] == each.numel()
        assert figures[2][127] == each.numel()
        (flags,) = slots_of("flags", launches.run("flags", [[each]]))
        assert flags[6] == each.numel()


def test_kernels_are_compiled_beside_the_training_and_kept(wheels, tmp_path):
    kernels = DeviceKernels([wheels], str(DRIVER))
    assert not kernels.is_ready("flags", 90)
    kernels.compile(KERNELS, 90)
    end = time.monotonic() + 30
    while not all(kernels.is_ready(each, 90) for each in KERNELS):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(list((tmp_path / "cache" / "mpnanny" / "kernels").iterdir())) == len(KERNELS)
    kernels.compile(["flags"], 70)
    while not kernels.why:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "sm_70" in kernels.why
    assert not kernels.is_ready("flags", 90)


def test_where_they_cannot_be_used_it_is_told_and_nothing_raised(wheels):
    none = DeviceKernels([wheels], "libcuda.so.9")
    assert "CUDA's driver is not here" in none.why
    assert Launches(none, torch.device("cpu")).run("flags", [[torch.ones(2)]]) is None
    none.compile(KERNELS, 90)
    assert not none.is_ready("flags", 90)
    kernels = DeviceKernels([wheels], str(DRIVER))
    launches = Launches(kernels, torch.device("cpu"))
    assert launches.run("flags", [[torch.ones(2, dtype=torch.int32)]]) is None
    assert "unknown dtype" in kernels.refused
    assert kernels.why == ""
    assert launches.run("flags", [[torch.ones(2)]]) is not None
