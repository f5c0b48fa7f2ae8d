import torch
from torch import nn


def main():
    torch.manual_seed(0)
    body, head = nn.Linear(16, 16).to("cuda"), nn.Linear(16, 1).to("cuda")
    body_optimizer = torch.optim.SGD(body.parameters(), lr=0.01)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=5)
    for _ in range(3):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (head(body(x)).float() - 1).pow(2).mean()
        body_optimizer.zero_grad()
        head_optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(body_optimizer)
        scaler.step(head_optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
