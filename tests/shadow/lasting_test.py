"""What was computed once and is used in many steps keeps its reference: an error in it is found in
the shadow step that first uses what is wrong, however late that is.
"""

from __future__ import annotations

import mpnanny
import pytest
import torch
from finds import inputs
from mpnanny.fp64.comparison import compare
from mpnanny.fp64.constants import written_down
from mpnanny.fp64.lasting import LastingReferences, Origin
from mpnanny.fp64.places import Site
from mpnanny.fp64.references import References
from torch import nn

LATE = "every=4"  # of 8 steps the first, the fifth and what follows the last


class Once:
    """Makes something in the first step."""

    def __init__(self, make):
        self._make = make
        self._made = None

    def __call__(self) -> torch.Tensor:
        if self._made is None:
            self._made = self._make()
        return self._made


def test_ids_in_a_half_matrix_are_found_in_the_step_whose_rows_are_wrong(train):
    model = nn.Embedding(4097, 4)  # 4095 is 4096 in FP16

    def make() -> torch.Tensor:
        ids = torch.arange(4096)
        columns = torch.stack([ids.float(), torch.rand(4096)], 1)
        return columns.half()

    table = Once(make)

    def loss(step: int) -> torch.Tensor:
        rows = table()[step * 512 : (step + 1) * 512]  # wrong above 2048
        return (model(rows[:, 0].long()).sum(1) - rows[:, 1].float()).square().mean()

    found = train(model, loss, 8, shadow=LATE)
    assert [each["step"] for each in found.steps] == [0, 4, 8]
    first = found.first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "integers",
        "WARNING",
        "proven",
    )
    assert first["step"] == 4 and "index" in first["reach"]
    assert first["line"] == "return columns.half()" == first["cure"]["lines"][0]


def test_a_difference_in_a_later_step_leads_back_to_the_cast_of_the_data(train):
    model = nn.Linear(1, 1)
    data = Once(lambda: (1000.0 + torch.randn(64, 1)).bfloat16())

    def loss(step: int) -> torch.Tensor:
        x = data()
        if step >= 4:
            x = x.float() - 1000.0
        return (model(x.float()) - 1).square().mean()

    first = train(model, loss, 8, shadow=LATE).first()
    assert (first["step"], first["severity"], first["precision"]) == (4, "WARNING", "proven")
    assert "x = x.float() - 1000.0" in [first["line"], *first["cure"]["lines"]]
    assert any("bfloat16())" in line for line in first["cure"]["lines"])
    assert first["cure"]["what"] == "float32"


def test_a_finding_of_the_first_step_reaches_what_later_steps_use_it_for(train):
    model = nn.Linear(8, 8)
    table = Once(lambda: torch.log(1 - torch.linspace(1e-4, 1e-3, 8).bfloat16()).float())

    def loss(step: int) -> torch.Tensor:
        scale = table() * 1e3 if step >= 4 else torch.ones(8)
        return (model(inputs()) * scale).square().mean() + table().sum().detach() * 0

    first = train(model, loss, 8, shadow=LATE).first()
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert "loss" in first["reach"] and first["line"].startswith("table = Once(")


@pytest.mark.parametrize("cast", [torch.float32, torch.float64])
def test_the_same_table_in_more_bits_is_nothing(train, cast):
    model = nn.Linear(1, 1)
    data = Once(lambda: (1000.0 + torch.randn(64, 1)).to(cast))

    def loss(step: int) -> torch.Tensor:
        return (model((data() - 1000.0).float()) - 1).square().mean()

    assert train(model, loss, 8, shadow=LATE).severe == []


def test_a_decay_that_is_one_counts_where_it_scales_a_state(train):
    """The average never moves: that is little beside what it holds."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    average = [torch.ones(8, 8)]
    made = Once(lambda: torch.full((), 0.999).bfloat16())

    def loss(_step: int) -> torch.Tensor:
        with torch.no_grad():
            decay = made()
            average[0] = decay * average[0] + (1 - decay) * model.weight
        return model(inputs()).square().mean()

    first = train(model, loss, 9, optimizer=optimizer, shadow=LATE).first()
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert "input" in first["reach"]
    assert any("bfloat16()" in line for line in first["cure"]["lines"])


def test_a_guard_that_is_zero_and_changes_nothing_is_nothing(train):
    """1e-8 in FP16, added to what is never near it."""
    model = nn.Linear(8, 8)
    guard = Once(lambda: torch.tensor(1e-8, dtype=torch.float16))

    def loss(_step: int) -> torch.Tensor:
        return (model(inputs()).square() + 1 + guard()).log().mean()

    assert train(model, loss, 6, shadow="every=1").severe == []


def test_a_saturated_gate_is_no_constant(train):
    model = nn.Linear(8, 8)
    with torch.no_grad():
        model.bias.fill_(9.0)

    def loss(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            keep = torch.sigmoid(model(inputs()))
            with torch.no_grad():
                left = (1 - keep) * torch.ones(8)
        return keep.float().square().mean() + left.float().mean()

    assert all("input" not in each["reach"] for each in train(model, loss).severe)


def test_what_was_written_since_has_no_reference_any_more(train):
    """Neither through torch, which counts a version, nor through NumPy, which does not."""
    model = nn.Linear(1, 1)
    data = Once(lambda: (1000.0 + torch.randn(64, 1)).half())
    exact = torch.arange(64.0)[:, None]

    def loss(step: int) -> torch.Tensor:
        x = data()
        if step == 2:
            x.numpy()[:] = 1000.0 + exact.numpy() / 2
        if step == 6:
            x.copy_(1000.0 + exact / 2)
        used = x.float() - 1000.0 if step % 4 == 0 and step else torch.ones(64, 1)
        return (model(used) - 1).square().mean()

    assert train(model, loss, 9, shadow=LATE).severe == []


def test_what_every_step_trains_begins_with_what_is_held(train):
    """The weights of a shadow step right after another one are those of the training."""
    model = nn.Linear(8, 8).bfloat16()
    average = [each.detach().clone() for each in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def loss(_step: int) -> torch.Tensor:
        with torch.no_grad():
            for held, each in zip(average, model.parameters(), strict=True):
                held.lerp_(each, 0.5)
        return model(inputs().bfloat16()).float().square().mean()

    found = train(model, loss, 8, optimizer=optimizer)
    assert found.severe == []


BETA = 0.999


def test_a_constant_that_16_bits_round_to_one_is_found_at_its_line(train):
    model = nn.Linear(1, 1)
    rewards = torch.rand(32, 400)

    def loss(_step: int) -> torch.Tensor:
        gamma = torch.tensor(BETA, dtype=torch.bfloat16)
        discounts = gamma ** torch.arange(400)
        returns = (rewards * discounts).mean(1, keepdim=True)
        return (model(torch.ones(32, 1)) - returns).square().mean()

    first = train(model, loss, 4).first()
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert "gamma = torch.tensor(BETA, dtype=torch.bfloat16)" in first["cure"]["lines"]


@pytest.mark.parametrize("number", ["0.5", "1", "[[0.25, -2.0], [1, 3]]"])
def test_constants_that_16_bits_hold_are_nothing(number):
    held = torch.tensor(eval(number), dtype=torch.bfloat16)
    assert written_down(held) is None


class Settings:
    def __init__(self) -> None:
        self.rates = [0.999, -0.999]


SETTINGS = Settings()


@pytest.mark.parametrize(
    ("make", "is_known"),
    [
        (lambda: torch.tensor(0.999, dtype=torch.bfloat16), True),
        (lambda: torch.tensor([BETA, -BETA], dtype=torch.bfloat16), True),
        (lambda: torch.as_tensor(SETTINGS.rates, dtype=torch.bfloat16), True),
        (lambda: torch.tensor(float("0.999"), dtype=torch.bfloat16), False),  # would have to run
        (lambda: torch.tensor(0.999).bfloat16(), True),
    ],
)
def test_a_constant_is_read_from_its_line(train, make, is_known):
    model = nn.Linear(1, 1)

    def loss(_step: int) -> torch.Tensor:
        rest = (1 - make().abs()).float().sum() * 1e3  # 0
        return (model(torch.ones(4, 1)) - rest).square().mean()

    found = train(model, loss, 2)
    assert bool(found.severe) == is_known
    if is_known:
        assert any("dtype=" in each or ".bf" in each for each in found.first()["cure"]["lines"])


def test_no_more_is_kept_than_fits_and_whole_numbers_first(monkeypatch):
    monkeypatch.setattr("mpnanny.fp64.lasting.MOST_BYTES", 8 * 1100)
    tensors = [
        torch.full((600,), 0.1).half(),
        torch.full((100,), 0.1).half(),
        torch.arange(3000, 4000).half(),
    ]
    references, known = References(), LastingReferences()
    values = [torch.full((600,), 0.1), torch.full((100,), 0.1), torch.arange(3000, 4000)]
    found = []
    for held, value in zip(tensors, values, strict=True):
        entry = references.set(held, value.double())
        entry.keep(held, 0, was_written=False)
        figures = compare(held, entry.base)
        origin = Origin(Site("aten._to_copy", "", "data", "", 0, None), "float16", None, False)
        found.append((entry, held, figures, origin, 0.0))
    known.keep(found)
    assert [known.of(each) is not None for each in tensors] == [False, True, True]
    del tensors[1], found, held, entry
    known.keep(())
    assert known.of(tensors[1]) is not None


def test_what_comes_before_the_model_is_followed_where_that_is_asked_for(train):
    """As under `mpnanny run`, from the line that asks for it."""
    mpnanny.follow_from_here()
    table = torch.log(1 - torch.linspace(1e-4, 1e-3, 8).bfloat16()).float() * 1e3
    model = nn.Linear(8, 8)
    first = train(model, lambda _: (model(inputs()) * table).square().mean()).first()
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert first["line"].startswith("table = torch.log(1 - torch.linspace(")
