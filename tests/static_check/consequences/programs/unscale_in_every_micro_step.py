import torch
from torch import nn

ACCUMULATE = 4


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    optimizer.zero_grad()
    for i in range(12):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x).float() - 1).pow(2).mean() / ACCUMULATE
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # <- error
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if (i + 1) % ACCUMULATE == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
