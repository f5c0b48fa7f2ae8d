import torch
from torch import nn


def main(use_amp=True):
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0) if use_amp else None
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
