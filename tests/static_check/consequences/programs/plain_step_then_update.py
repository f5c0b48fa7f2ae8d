import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast


def train_one_epoch(model, optimizer, scaler, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with autocast(dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        optimizer.step()  # <- error
        scaler.update()  # <- error


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = GradScaler()
    batches = [(torch.randn(64, 16).cuda(), torch.ones(64, 1).cuda()) for _ in range(5)]
    train_one_epoch(model, optimizer, scaler, batches)


if __name__ == "__main__":
    main()
