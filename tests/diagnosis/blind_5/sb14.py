"""Small-data regression of alloy hardness in BF16 autocast, keeps the best epoch."""
import copy
import torch
from torch import nn

torch.manual_seed(10)


def alloys(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 12, generator=g)
    x = x / x.sum(1, keepdim=True) * 4
    y = 2 * x[:, 0] - x[:, 1] * x[:, 2] + torch.sin(3 * x[:, 3])
    return x, (y + 0.6 * torch.randn(n, generator=g)).unsqueeze(1)


class EarlyStopper:
    def __init__(self):
        self.value, self.state, self.epoch = float("inf"), None, -1

    def update(self, value, model, epoch):
        if value < self.value:
            self.value, self.epoch = value, epoch
            self.state = model.state_dict()  # @fault

    def restore(self, model):
        model.load_state_dict(self.state)
        return self.epoch, self.value


def predict(model, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(x).to(x.dtype)


@torch.no_grad()
def mse(model, data):
    return nn.functional.mse_loss(predict(model, data[0]), data[1]).item()


def main():
    train, val, test = alloys(240, 1), alloys(400, 2), alloys(2000, 3)
    model = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    stop = EarlyStopper()
    g = torch.Generator().manual_seed(0)
    for epoch in range(90):
        for idx in torch.randperm(240, generator=g).split(60):
            loss = nn.functional.mse_loss(predict(model, train[0][idx]), train[1][idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        v = mse(model, val)
        stop.update(v, model, epoch)
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d}  train {loss.item():.4f}  val {v:.4f}  best {stop.value:.4f}")
    epoch, value = stop.restore(model)
    print(f"restored epoch {epoch} with val {value:.4f}")
    final = mse(model, test)
    print("test mse of the restored model", round(final, 4))


if __name__ == "__main__":
    main()
