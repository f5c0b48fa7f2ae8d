import torch
from torch import nn


def main():
    torch.manual_seed(0)
    body, head = nn.Linear(16, 16).to("cuda"), nn.Linear(16, 1).to("cuda")
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in (body, head)]
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (head(body(x)).float() - 1).pow(2).mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
