"""Over-parametrised linear regression in BF16 with decoupled weight decay."""

import os

import torch

torch.set_num_threads(1)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
LR, DECAY = 0.05, 0.035
IN_FEATURES, TRAIN_ROWS = 128, 48


@torch.no_grad()
def sgd_step(weight, lr, decay):
    weight.mul_(1.0 - lr * decay)  # @fault
    weight.add_(weight.grad, alpha=-lr)
    weight.grad = None


def main():
    generator = torch.Generator().manual_seed(17)
    truth = torch.zeros(IN_FEATURES)
    truth[:8] = 0.5
    train_x = torch.randn(TRAIN_ROWS, IN_FEATURES, generator=generator)
    val_x = torch.randn(512, IN_FEATURES, generator=generator)
    train_y, val_y = train_x @ truth, val_x @ truth
    weight = torch.randn(IN_FEATURES, generator=generator).to(HALF).requires_grad_()
    for step in range(150):
        prediction = train_x.to(HALF) @ weight
        loss = (prediction.float() - train_y).square().mean()
        loss.backward()
        sgd_step(weight, LR, DECAY)
        if step % 25 == 0 or step == 149:
            with torch.no_grad():
                val = (val_x @ weight.float() - val_y).square().mean()
            norm = weight.detach().float().norm()
            print(f"step {step} loss {loss.item():.4f} val {val.item():.2f} norm {norm.item():.3f}")


if __name__ == "__main__":
    main()
