"""Models that see pictures, and models that make them (torchvision, timm, diffusers)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from library_data import images, smooth_images
from library_parts import Training, adamw, cosine
from torch import Tensor, nn
from torch.nn import functional

# --- images ---


def resnet() -> Training:
    from torchvision.models.resnet import Bottleneck, ResNet

    model = ResNet(Bottleneck, [1, 1, 1, 1], width_per_group=8)
    model.layer3 = model.layer4 = nn.Identity()  # they are wide
    model.fc = nn.Linear(512, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)

    def loss() -> Tensor:
        x, y = images(8, 16)
        return functional.cross_entropy(model(x).float(), y)

    return Training(model, [optimizer], loss, scheduler=cosine(optimizer), blocks=False)


def mobilenet() -> Training:
    from torchvision.models import mobilenet_v2

    model = mobilenet_v2(num_classes=4, width_mult=0.25)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3, momentum=0.9, weight_decay=4e-5)

    def loss() -> Tensor:
        x, y = images(16, 32)
        return functional.cross_entropy(model(x).float(), y)

    return Training(model, [optimizer], loss)


def convnext() -> Training:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 48, 1), CNBlockConfig(48, None, 1)]
    model = ConvNeXt(blocks, stochastic_depth_prob=0.1, num_classes=4)

    def loss() -> Tensor:
        x, y = images(8, 16)
        return functional.cross_entropy(model(x).float(), y, label_smoothing=0.1)

    return Training(model, [adamw(model, 2e-3, weight_decay=0.05)], loss)


def vit() -> Training:
    from timm.models.vision_transformer import VisionTransformer
    from timm.utils import ModelEmaV3

    model = VisionTransformer(
        img_size=16, patch_size=4, num_classes=4, embed_dim=32, depth=2, num_heads=4,
        drop_path_rate=0.1, proj_drop_rate=0.1,
    )  # fmt: skip
    average = ModelEmaV3(model, decay=0.99)

    def loss() -> Tensor:
        x, y = images(16, 16)
        return functional.cross_entropy(model(x).float(), y, label_smoothing=0.1)

    return Training(
        model,
        [adamw(model)],
        loss,
        clip=1.0,
        after=lambda: average.update(model),
        others={"average": average},
    )


def efficientnet() -> Training:
    """Depthwise convolutions, squeeze and excitation, SiLU; trained by LAMB."""
    from timm.models._efficientnet_builder import decode_arch_def
    from timm.models.efficientnet import EfficientNet
    from timm.optim import Lamb

    stages = [["ds_r1_k3_s1_e1_c16_se0.25"], ["ir_r1_k3_s2_e4_c24_se0.25"]]
    model = EfficientNet(decode_arch_def(stages), 4, num_features=48, stem_size=16)

    def loss() -> Tensor:
        x, y = images(8, 16)
        return functional.cross_entropy(model(x).float(), y)

    return Training(model, [Lamb(model.parameters(), lr=5e-3)], loss)


# --- models that make pictures ---


def unet() -> Training:
    """A diffusion model: the noise is predicted, at random times of a schedule."""
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(16, 32), norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    schedule = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
    optimizer = adamw(model, 1e-3)

    def loss() -> Tensor:
        clean = smooth_images(4, 16)
        noise, at = torch.randn_like(clean), torch.randint(1000, (4,))
        seen = model(schedule.add_noise(clean, noise, at), at).sample
        return functional.mse_loss(seen.float(), noise)

    return Training(model, [optimizer], loss, scheduler=cosine(optimizer), clip=1.0)


def autoencoder_kl() -> Training:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(16, 32), norm_num_groups=8, latent_channels=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip

    def loss() -> Tensor:
        clean = smooth_images(4, 16)
        latent = model.encode(clean).latent_dist
        made = model.decode(latent.sample()).sample
        return functional.l1_loss(made.float(), clean) + 1e-4 * latent.kl().mean()

    return Training(model, [adamw(model, 1e-3)], loss)


def vq() -> Training:
    from diffusers import VQModel

    model = VQModel(
        block_out_channels=(16, 16), norm_num_groups=8, latent_channels=4, num_vq_embeddings=32,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip

    def loss() -> Tensor:
        clean = smooth_images(4, 16)
        made = model(clean)
        return functional.mse_loss(made.sample.float(), clean) + made.commit_loss.float().mean()

    return Training(model, [adamw(model, 1e-3)], loss)


def dcgan() -> Training:
    """The networks of PyTorch's tutorial, for pictures of 16 × 16."""
    maker = nn.Sequential(
        nn.ConvTranspose2d(8, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
        nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, True),
        nn.Conv2d(32, 1, 4, 1, 0, bias=False), nn.Flatten(0),
    )  # fmt: skip
    model = nn.ModuleDict({"maker": maker, "judge": judge})
    rate = {"lr": 5e-4, "betas": (0.5, 0.999)}
    makers = torch.optim.Adam(maker.parameters(), **rate)
    judges = torch.optim.Adam(judge.parameters(), **rate)
    of = functional.binary_cross_entropy_with_logits

    def step(scaler: Any, autocast: Callable[[], Any]) -> Tensor:
        real, ones = smooth_images(16, 16, 1), torch.ones(16)
        judges.zero_grad()
        with autocast():
            made = maker(torch.randn(16, 8, 1, 1))
            loss = of(judge(real).float(), 0.9 * ones) + of(judge(made.detach()).float(), 0 * ones)
        scaler.scale(loss).backward()
        scaler.step(judges)
        makers.zero_grad()
        with autocast():
            loss = of(judge(made).float(), ones)
        scaler.scale(loss).backward()
        scaler.step(makers)
        scaler.update()
        return loss

    return Training(model, [judges, makers], step=step)
