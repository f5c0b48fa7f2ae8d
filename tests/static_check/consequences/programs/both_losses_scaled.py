import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 2).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x).float()
            main_loss = (out[:, 0] - 1).pow(2).mean()
            extra_loss = (out[:, 1] + 1).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(main_loss).backward(retain_graph=True)
        scaler.scale(extra_loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
