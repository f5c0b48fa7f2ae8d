"""Adapt a pump model from the lab rig to the field unit with a small step size."""
import copy
import torch
from torch import nn

torch.manual_seed(23)


def rig(n, gen, shift):
    x = torch.rand(n, 6, generator=gen) * 2 - 1
    head = 1.2 - 0.6 * (x[:, 0] + shift) ** 2 + 0.4 * torch.sin(2 * x[:, 1] + 2 * shift) * x[:, 2] + shift * x[:, 3]
    return x, (head + 0.02 * torch.randn(n, generator=gen)).unsqueeze(1)


def make_model():
    return nn.Sequential(nn.Linear(6, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 1))


def quick_check(model, data):
    """Score as deployed: the controller computes in bfloat16."""
    net = model.to(torch.bfloat16)  # @fault
    with torch.no_grad():
        out = net(data[0].to(torch.bfloat16))
    model.to(torch.get_default_dtype())
    return nn.functional.mse_loss(out.to(data[1].dtype), data[1]).item()


def fit(model, source, val, steps, lr, every, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    best = float("inf")
    for i in range(1, steps + 1):
        x, y = source(128)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % every == 0:
            best = min(best, quick_check(model, val))
        if i % 100 == 0:
            print(f"{tag} {i}: loss {loss.item():.5f} best check {best:.5f}")
    return model


def main():
    gen = torch.Generator().manual_seed(7)
    model = make_model()
    fit(model, lambda n: rig(n, gen, 0.0), rig(1000, gen, 0.0), 200, 3e-3, 50, "lab")
    val, test = rig(500, gen, 0.25), rig(3000, gen, 0.25)
    with torch.no_grad():
        print("before adaptation", nn.functional.mse_loss(model(test[0]), test[1]).item())
    fit(model, lambda n: rig(n, gen, 0.25), val, 300, 5e-5, 1, "field")
    with torch.no_grad():
        mse = nn.functional.mse_loss(model(test[0]), test[1]).item()
    print("field test mse", round(mse, 6))


if __name__ == "__main__":
    main()
