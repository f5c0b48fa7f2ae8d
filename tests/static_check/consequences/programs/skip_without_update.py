import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for i in range(5):
        x = torch.randn(64, 16, device="cuda") * (1e30 if i == 1 else 1)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            continue  # <- error
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
