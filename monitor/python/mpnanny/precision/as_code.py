"""A plan as code: for plain PyTorch, and as configuration of the libraries that people train with.

Adding a library: one function that gives its text for the ways it has, and a line in _WRITERS.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass

from . import keep_fp32 as _keep_fp32
from .assignment import OUTSIDE
from .candidates import Candidate


@dataclass(frozen=True, slots=True)
class Code:
    """`library`: pytorch, accelerate, …; `language`: python or json."""

    library: str
    language: str
    text: str


_TORCH = {
    "fp32": "torch.float32",
    "fp16": "torch.float16",
    "bf16": "torch.bfloat16",
    "fp8": "torch.bfloat16",
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the texts need of a candidate."""

    way: str
    precision: str
    islands: list[str]  # names of modules, as submodules of `model`
    outside: bool  # operators outside of modules stay in FP32: the loss
    left_out: list[str]  # linear layers that stay in BF16 beside FP8
    init_scale: float
    growth_interval: int
    reduce: str  # format in which gradients are communicated

    @property
    def dtype(self) -> str:
        return _TORCH.get(self.precision, "torch.float32")

    @property
    def is_autocast(self) -> bool:
        return self.way in ("fp16-autocast", "bf16-autocast")


def code_for(candidate: Candidate, reduce_in_fp32: bool, device_type: str = "cuda") -> list[Code]:
    """The plan for every library that can express it. `reduce_in_fp32`: what gradients need when
    they are summed over ranks. `device_type`: that of torch.autocast.
    """
    scaling = candidate.scaling
    reduce = "fp16" if candidate.way.precision == "fp16" else "bf16"
    islands = [unit for unit in candidate.islands if unit != OUTSIDE]
    plan = _Plan(
        way=candidate.way.name,
        precision=candidate.way.precision,
        islands=islands,
        outside=OUTSIDE in candidate.islands,
        left_out=candidate.fp8_left_out,
        init_scale=scaling.initial if scaling else 1.0,
        growth_interval=scaling.growth_interval if scaling else 2000,
        reduce="fp32" if reduce_in_fp32 else reduce,
    )
    made = []
    for library, language, write in _WRITERS:
        text = write(plan)
        if text is not None:
            text = text if device_type == "cuda" else text.replace('"cuda"', f'"{device_type}"')
            made.append(Code(library, language, text))
    return made


def _islands(plan: _Plan, model: str = "model") -> str:
    """The call that makes the islands; nothing where there are none."""
    if not plan.islands:
        return ""
    call = f"keep_fp32({model}, {json.dumps(plan.islands)}, {plan.dtype})"
    return f"from keep_fp32 import keep_fp32\n\n{call}\n"


def _keep_fp32_py(plan: _Plan) -> str | None:
    """The file that the calls need."""
    if not plan.islands or not (plan.is_autocast or plan.precision == "fp8"):
        return None
    return inspect.getsource(_keep_fp32)


def _imports(plan: _Plan) -> str:
    return "import torch\n" if plan.islands else ""


def _loss(plan: _Plan, inside: str) -> str:
    """The lines of a step inside of autocast."""
    if not plan.outside:
        return f"{inside}    output = model(batch)\n{inside}    loss = criterion(output, target)\n"
    return (
        f"{inside}    output = model(batch)\n"
        f"{inside}# what runs outside of modules stays in FP32\n"
        f"{inside}loss = criterion(output.float(), target)\n"
    )


def _pytorch(plan: _Plan) -> str | None:
    if plan.way == "fp32":
        return 'import torch\n\ntorch.set_float32_matmul_precision("highest")\n'
    if plan.way == "tf32":
        return (
            "import torch\n\n"
            'torch.set_float32_matmul_precision("high")  # products of matrices\n'
            "torch.backends.cudnn.allow_tf32 = True  # convolutions\n"
        )
    if not plan.is_autocast:
        return None
    text = f"import torch\n{_islands(plan)}\n"
    enter = f'with torch.autocast("cuda", dtype={plan.dtype}):\n'
    if plan.precision == "bf16":
        return (
            f"{text}for batch, target in loader:\n    optimizer.zero_grad()\n    {enter}"
            f"{_loss(plan, '    ')}    loss.backward()\n    optimizer.step()\n"
        )
    return (
        f"{text}scaler = torch.amp.GradScaler(\n"
        f'    "cuda", init_scale={plan.init_scale:.1f}, growth_interval={plan.growth_interval}\n)\n'
        f"for batch, target in loader:\n    optimizer.zero_grad()\n    {enter}{_loss(plan, '    ')}"
        "    scaler.scale(loss).backward()\n"
        "    scaler.unscale_(optimizer)  # gradients are clipped after this line, if at all\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )


def _accelerate(plan: _Plan) -> str | None:
    if plan.way in ("fp32", "tf32"):
        made = 'accelerator = Accelerator(mixed_precision="no")\n'
        return f"from accelerate import Accelerator\n\n{made}"
    if not plan.is_autocast:
        return None
    if plan.precision == "bf16":
        made = 'accelerator = Accelerator(mixed_precision="bf16")\n'
        return f"{_imports(plan)}from accelerate import Accelerator\n{_islands(plan)}\n{made}"
    return (
        f"{_imports(plan)}from accelerate import Accelerator\n"
        f"from accelerate.utils import GradScalerKwargs\n{_islands(plan)}\n"
        "scaler = GradScalerKwargs("
        f"init_scale={plan.init_scale:.1f}, growth_interval={plan.growth_interval})\n"
        'accelerator = Accelerator(mixed_precision="fp16", kwargs_handlers=[scaler])\n'
    )


def _lightning(plan: _Plan) -> str | None:
    if plan.way == "fp32":
        return 'from lightning import Trainer\n\ntrainer = Trainer(precision="32-true")\n'
    if plan.way == "tf32":
        return (
            "import torch\nfrom lightning import Trainer\n\n"
            'torch.set_float32_matmul_precision("high")\ntrainer = Trainer(precision="32-true")\n'
        )
    if not plan.is_autocast:
        return None
    if plan.precision == "bf16":
        return (
            f"{_imports(plan)}from lightning import Trainer\n{_islands(plan, 'module.model')}\n"
            'trainer = Trainer(precision="bf16-mixed")\n'
        )
    return (
        "import torch\nfrom lightning import Trainer\n"
        "from lightning.pytorch.plugins import MixedPrecision\n"
        f"{_islands(plan, 'module.model')}\n"
        f'scaler = torch.amp.GradScaler("cuda", init_scale={plan.init_scale:.1f}, '
        f"growth_interval={plan.growth_interval})\n"
        'trainer = Trainer(plugins=[MixedPrecision("16-mixed", "cuda", scaler)])\n'
    )


def _transformers(plan: _Plan) -> str | None:
    arguments = {
        "fp32": "tf32=False",
        "tf32": "tf32=True",
        "bf16-autocast": "bf16=True",
        "fp16-autocast": "fp16=True",
    }.get(plan.way)
    if arguments is None:
        return None
    text = (
        f"{_imports(plan)}from transformers import TrainingArguments\n{_islands(plan)}\n"
        f'arguments = TrainingArguments(output_dir="out", {arguments})\n'
    )
    if plan.precision == "fp16":
        text += (
            "# after the Trainer is made: its GradScaler begins at 65536 otherwise\n"
            f"# trainer.accelerator.scaler._init_scale = {plan.init_scale:.1f}\n"
            f"# trainer.accelerator.scaler.set_growth_interval({plan.growth_interval})\n"
        )
    return text


def _deepspeed(plan: _Plan) -> str | None:
    if plan.way in ("fp32", "tf32"):
        settings: dict[str, object] = {"bf16": {"enabled": False}, "fp16": {"enabled": False}}
    elif plan.is_autocast:
        settings = {"torch_autocast": {"enabled": True, "dtype": plan.dtype.partition(".")[2]}}
    elif plan.way == "bf16-weights":
        settings = {"bf16": {"enabled": True}}
    else:
        return None
    settings["communication_data_type"] = plan.reduce
    return json.dumps(settings, indent=2) + "\n"


def _fsdp2(plan: _Plan) -> str | None:
    if plan.way != "bf16-weights":
        return None
    text = (
        "import torch\nfrom torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n\n"
        "policy = MixedPrecisionPolicy("
        f"param_dtype=torch.bfloat16, reduce_dtype={_TORCH[plan.reduce]})\n"
    )
    if plan.islands:
        text += (
            "in_fp32 = MixedPrecisionPolicy(\n    param_dtype=torch.float32, "
            "reduce_dtype=torch.float32, output_dtype=torch.bfloat16\n)\n"
            f"for name in {json.dumps(plan.islands)}:\n"
            "    fully_shard(model.get_submodule(name), mp_policy=in_fp32)\n"
        )
    return (
        text
        + "# each block before the whole: for block in blocks: fully_shard(block, …)\n"
        + ("fully_shard(model, mp_policy=policy)\n")
    )


def _torchao(plan: _Plan) -> str | None:
    if plan.precision != "fp8":
        return None
    return (
        "import torch\nfrom torchao.float8 import Float8LinearConfig, convert_to_float8_training\n"
        f"{_islands(plan)}\n"
        f"NOT_FP8 = {json.dumps(sorted({*plan.left_out, *plan.islands}))}\n\n\n"
        "def in_fp8(module: torch.nn.Module, name: str) -> bool:\n"
        "    if name in NOT_FP8 or not isinstance(module, torch.nn.Linear):\n"
        "        return False\n"
        "    # the matrix units take multiples of 16\n"
        "    return module.in_features % 16 == 0 and module.out_features % 16 == 0\n\n\n"
        'config = Float8LinearConfig.from_recipe_name("tensorwise")\n'
        "convert_to_float8_training(model, config=config, module_filter_fn=in_fp8)\n"
        "# the training loop stays: torch.autocast in BF16\n"
    )


def _transformer_engine(plan: _Plan) -> str | None:
    if plan.precision != "fp8":
        return None
    kept = json.dumps(sorted({*plan.left_out, *plan.islands}))
    return (
        "import transformer_engine.pytorch as te\n"
        "from transformer_engine.common.recipe import Float8CurrentScaling, Format\n\n"
        f"# te.Linear instead of nn.Linear everywhere but in {kept}\n"
        "recipe = Float8CurrentScaling(fp8_format=Format.HYBRID)  # E4M3, gradients in E5M2\n"
        "with te.fp8_autocast(enabled=True, fp8_recipe=recipe):\n    output = model(batch)\n"
    )


_WRITERS: tuple[tuple[str, str, Callable[[_Plan], str | None]], ...] = (
    ("keep_fp32.py", "python", _keep_fp32_py),
    ("pytorch", "python", _pytorch),
    ("accelerate", "python", _accelerate),
    ("lightning", "python", _lightning),
    ("transformers", "python", _transformers),
    ("deepspeed", "json", _deepspeed),
    ("fsdp2", "python", _fsdp2),
    ("torchao", "python", _torchao),
    ("transformer_engine", "python", _transformer_engine),
)
LIBRARIES = tuple(library for library, _, _ in _WRITERS)
