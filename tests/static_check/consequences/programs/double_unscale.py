import torch
from torch import nn


def gradient_norm(model, optimizer, scaler):
    scaler.unscale_(optimizer)  # <- error
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        print(gradient_norm(model, optimizer, scaler))  # <- error
        scaler.unscale_(optimizer)  # <- error
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
