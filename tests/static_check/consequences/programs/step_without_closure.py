import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")

        def compute(x=x):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = (model(x).float() - 1).pow(2).mean()
            scaler.scale(loss).backward()
            return loss

        compute()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
