"""What shadow steps find, each in a training of a few lines with one thing in it."""

from __future__ import annotations

import json
import math

import torch
from finds import Finds, inputs, text_of
from mpnanny import MixedPrecisionNanny
from torch import nn

# --- values that leave a range ---


def test_an_overflow_is_found_at_its_line_and_fp32_cures_it(train):
    model = nn.Linear(8, 8).half()

    def loss_of(_step: int) -> torch.Tensor:
        score = model(inputs().half()) * 100
        energy = score.pow(4)
        return energy.float().mean()

    first = train(model, loss_of, steps=1).first()
    assert (first["kind"], first["severity"], first["precision"]) == ("range", "ERROR", "proven")
    assert first["line"] == "energy = score.pow(4)"
    assert first["operator"].startswith("aten.pow") and first["dtype"] == "float16"
    assert first["magnitude"] > 65504 and first["error_out"] is None
    assert first["cure"]["lines"] == [first["line"]] and first["cure"]["what"] == "float32"
    assert first["cure"]["error_after"] < 0.01
    assert "loss" in first["reach"]


def test_an_overflow_of_the_backward_pass_is_found_at_its_forward_line(train):
    model = nn.Linear(8, 8).half()

    def loss_of(_step: int) -> torch.Tensor:
        small = model(inputs().half()).sigmoid() * 1e-3 + 1e-3
        return (1 / small).float().mean()

    found = train(model, loss_of, steps=1)
    first = found.first()
    assert (first["kind"], first["phase"], first["precision"]) == ("range", "backward", "proven")
    assert "small" in first["line"] and "gradient" in first["reach"]


def test_a_divisor_that_underflows_is_shown_beside_what_it_is_in_fp64(train):
    model = nn.Linear(8, 8).half()

    def loss_of(_step: int) -> torch.Tensor:
        size = (model(inputs().half()) * 1e-4).square()
        return (0.5 / size * 1e-4).float().mean()

    found = train(model, loss_of, steps=1)
    divisions = [each for each in found.all if each["operator"] == "aten.reciprocal"]
    assert divisions and divisions[0]["kind"] == "range"
    (held, reference), *others = json.loads(divisions[0]["detail"])["operands"]
    assert held == 0 and 0 < reference < 6e-8 and not others


def test_the_lines_that_made_a_zero_are_named(train):
    model = nn.Linear(4, 4)
    table = torch.tensor([1.0, 0.5, 0.0])

    def loss(_step: int) -> torch.Tensor:
        kept = table[torch.tensor([2, 1])]
        ratio = kept / (1 - kept)
        weight = ratio.clamp(max=5.0) / ratio
        return (model(inputs(2, 4)).square().mean(1) * weight).mean()

    first = train(model, loss, steps=3).first()
    assert first["line"] == "weight = ratio.clamp(max=5.0) / ratio"
    before = [text_of(source) for _, source in json.loads(first["detail"])["inputs_from"]]
    assert before[:2] == ["ratio = kept / (1 - kept)", "kept = table[torch.tensor([2, 1])]"]


def test_operands_of_a_sum_are_not_shown(train):
    model = nn.Linear(8, 8).half()

    def loss_of(_step: int) -> torch.Tensor:
        return (model(inputs().half()).sigmoid() * 6e4).sum().float()

    first = train(model, loss_of, steps=1).first()
    assert first["kind"] == "range" and "operands" not in json.loads(first["detail"] or "{}")


def test_log_of_0_that_reaches_the_loss_excludes_precision(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        share = model(inputs()).relu()
        return share.log().mean()

    found = train(model, loss_of, steps=1)
    first = found.first()
    assert (first["kind"], first["severity"]) == ("undefined", "ERROR")
    assert first["precision"] == "excluded" and first["cure"] is None
    assert first["line"] == "return share.log().mean()" and first["operator"] == "aten.log"
    assert "loss" in first["reach"]


def test_an_undefined_value_that_where_throws_away_is_nothing(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        share = model(inputs())
        with torch.no_grad():
            logs = torch.where(share > 0, share.log(), 0)
        masked = share.masked_fill(share < 0, -math.inf).softmax(1)
        return (share * logs).mean() + masked.square().mean()

    assert train(model, loss_of).severe == []


def test_what_nan_to_num_replaces_is_a_note(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        share = model(inputs())
        with torch.no_grad():
            ratio = share[:, :1].relu() / share[:, 1:2].relu()
            ratio = ratio.nan_to_num(0.0, posinf=1.0)
        return (share * ratio).mean()

    found = train(model, loss_of)
    assert found.severe == []
    assert [each["line"] for each in found.all if each["kind"] == "undefined"] == [
        "ratio = share[:, :1].relu() / share[:, 1:2].relu()"
    ]


def test_a_batch_that_is_not_finite_is_named_where_it_comes_in(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        x = inputs()
        if step == 1:
            x = torch.from_numpy(x.numpy().copy())
            x.numpy()[0, 0] = math.nan
        return model(x).square().mean()

    first = train(model, loss_of, steps=2).first()
    assert (first["kind"], first["precision"], first["step"]) == ("undefined", "excluded", 1)


# --- precision that is lost ---


def test_cancellation_names_the_chain_that_has_to_be_wider(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        x = 300 + inputs(64).to(torch.bfloat16)
        mean = x.mean(1, keepdim=True)
        squares = (x * x).mean(1, keepdim=True)
        variance = squares - mean * mean
        return (model(inputs(64)) * variance.float()).square().mean()

    first = train(model, loss_of, steps=1).first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "amplified",
        "WARNING",
        "proven",
    )
    assert first["line"] == "variance = squares - mean * mean"
    assert first["error_out"] > 5 * first["error_in"] and first["error_out"] > 0.2
    assert first["cure"]["lines"][-1] == first["line"]
    assert "squares = (x * x).mean(1, keepdim=True)" in first["cure"]["lines"]
    assert first["cure"]["error_after"] < 0.1 * first["cure"]["error_before"]


def test_fp32_cancellation_is_cured_by_fp64(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        x = 1e5 + inputs(64)
        variance = (x * x).mean(1, keepdim=True) - x.mean(1, keepdim=True) ** 2
        return (model(inputs(64)) * variance).square().mean()

    first = train(model, loss_of, steps=1).first()
    assert (first["kind"], first["cure"]["what"]) == ("amplified", "float64")


def test_a_gradient_that_is_lost_behind_a_long_loop_is_cured_by_fp32(train):
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.logit = nn.Parameter(torch.linspace(7.0, 9.0, 16))
            self.write = nn.Linear(1, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            decay = torch.sigmoid(self.logit)
            written = self.write(x)
            state = torch.zeros_like(written[:, 0])
            for at in range(x.shape[1]):
                state = decay * state + written[:, at]
            return state

    model = Memory().bfloat16()

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs(4, 200)[..., None].bfloat16()
        return (model(x).float() / 8).square().mean()

    first = train(model, loss_of, steps=2).first()
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert "gradient" in first["reach"]  # decays of 1 have no derivative
    assert "decay = torch.sigmoid(self.logit)" in first["cure"]["lines"]


def squares_of(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) ** 2  # the squares


def test_the_line_that_calls_a_function_with_a_format_is_named(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        large = squares_of(1e3 * inputs(), torch.float16)  # calls
        return model(large.float()).square().mean()

    first = train(model, loss_of, steps=1).first()
    assert (first["kind"], first["line"]) == ("range", "return x.to(dtype) ** 2  # the squares")
    assert text_of(json.loads(first["detail"])["called_from"][0]).endswith("# calls")


def test_integers_that_pass_through_half_are_not_what_they_were(train):
    model = nn.Embedding(5000, 4)

    def loss_of(_step: int) -> torch.Tensor:
        numbers = torch.randint(2048, 5000, (64,))
        ids = numbers.half()
        return model(ids.long()).square().mean()

    first = train(model, loss_of, steps=2).first()
    assert (first["kind"], first["severity"]) == ("integers", "WARNING")
    assert first["line"] == "ids = numbers.half()" and "index" in first["reach"]
    assert first["precision"] == "proven"


def test_small_integers_in_half_are_fine(train):
    model = nn.Embedding(2049, 4)

    def loss_of(_step: int) -> torch.Tensor:
        return model(torch.randint(0, 2049, (64,)).half().long()).square().mean()

    assert train(model, loss_of).severe == []


def test_gradients_that_underflow_in_fp16_are_flushed(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).half()

    def loss_of(_step: int) -> torch.Tensor:
        return model(inputs().half()).float().square().mean() * 1e-6

    found = train(model, loss_of, steps=3, optimizer=torch.optim.SGD(model.parameters(), lr=1e4))
    assert "flushed" in found.kinds
    flushed = next(each for each in found.severe if each["kind"] == "flushed")
    assert flushed["phase"] == "backward" and "gradient" in flushed["reach"]
    assert flushed["share"] > 0.3


# --- loss scales ---


def test_the_search_for_a_loss_scale_is_nothing(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        for _ in range(14):
            descent.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = nn.functional.cross_entropy(model(inputs()), torch.randint(0, 3, (16,)))
            scaler.scale(loss).backward()
            scaler.step(descent)
            scaler.update()
    assert scaler.get_scale() < 2.0**26  # it has searched
    found = Finds(database())
    assert len(found.steps) == 14 and found.severe == []


def test_the_search_for_a_loss_scale_that_the_program_keeps_is_nothing(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    scale, updates = 2.0**24, 0
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        for _ in range(14):
            descent.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = nn.functional.cross_entropy(model(inputs()), torch.randint(0, 3, (16,)))
            (loss * scale).backward()
            for parameter in model.parameters():
                parameter.grad.div_(scale)
            if math.isfinite(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()):
                descent.step()
                updates += 1
            else:
                scale /= 2
    assert 0 < updates < 14  # it has searched
    assert Finds(database()).severe == []


def test_an_overflow_that_an_optimizer_takes_is_found_although_the_program_reads_it(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(inputs()), torch.randint(0, 3, (16,)))
        (loss * 2.0**26).backward()
        assert not math.isfinite(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        descent.step()
    first = Finds(database()).first()
    assert (first["kind"], first["phase"], first["severity"]) == ("range", "backward", "ERROR")


def test_a_root_of_0_that_rounding_alone_makes_or_unmakes_is_named_in_its_backward_pass(train):
    """Of some elements the reference is not finite and the held value is, of others it is the other
    way round: the division that the root's gradient is has made both.
    """
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16))

    def loss_of(_step: int) -> torch.Tensor:
        embedded = nn.functional.normalize(model(inputs(32)), dim=1)
        squares = (embedded * embedded).sum(1)
        apart = squares[:, None] + squares[None, :] - 2 * embedded @ embedded.t()
        distance = apart.clamp(min=0).sqrt()
        return (distance * (1 - torch.eye(32))).mean()

    found = train(model, loss_of, steps=1)
    first = found.severe[0]
    assert (first["kind"], first["phase"]) == ("undefined", "backward")
    assert first["precision"] == "excluded"
    assert first["operator"].startswith("aten.div")
    assert first["line"] == "distance = apart.clamp(min=0).sqrt()"
    detail = json.loads(first["detail"])
    assert detail["forward"] == "aten.sqrt" and "from" not in detail


# --- where an error comes in ---


def test_a_difference_names_the_line_at_which_the_error_came_in(train):
    model = nn.Linear(8, 1)

    def loss_of(_step: int) -> torch.Tensor:
        position = torch.arange(16).to(torch.bfloat16)
        for _ in range(40):
            position = position + 0.3  # swallowed more and more
        offset = position.float() - (torch.arange(16) + 11.5)
        return (model(inputs()).squeeze(1) * offset).square().mean()

    found = train(model, loss_of, steps=3)
    first = next(each for each in found.severe if "offset" in each["line"])
    origin = json.loads(first["detail"])["origin"]
    assert text_of(origin["source"]).startswith("position = position + 0.3")
    assert origin["operator"].startswith("aten.add") and origin["dtype"] == "bfloat16"


# --- losses ---


def test_a_loss_that_is_0_by_design_is_nothing(train):
    model = nn.Linear(8, 1, bias=False)

    def loss_of(_step: int) -> torch.Tensor:
        reward = (torch.rand(6, 8) < 0.3).float()
        reward[:, 0], reward[:, 1] = 1.0, 0.0
        centred = reward - reward.mean(1, keepdim=True)
        advantage = centred / (reward.std(1, keepdim=True) + 1e-4)
        score = model(inputs(48)).view(6, 8)
        ratio = (score - score.detach()).exp()
        return -(ratio * advantage).mean()

    assert train(model, loss_of, steps=12).severe == []


def test_a_loss_whose_terms_cancel_out_and_leave_something_is_found(train):
    model = nn.Linear(8, 1)

    def loss_of(_step: int) -> torch.Tensor:
        score = model(inputs()) * 1e-2 + 3e3
        return score.square().mean() - score.mean().square()

    assert "amplified" in train(model, loss_of, steps=6).kinds
