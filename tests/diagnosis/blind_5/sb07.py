"""Locate tags from noisy ranges to anchors; trained on pairwise distances only."""
import torch
from torch import nn

torch.manual_seed(6)
ANCHORS = torch.tensor([[0., 0.], [4., 0.], [0., 3.], [4., 3.], [2., 1.5], [1., 2.8]])


def sample(n, gen):
    pos = torch.rand(n, 2, generator=gen) * torch.tensor([4.0, 3.0])
    rng = torch.cdist(pos, ANCHORS) + 0.03 * torch.randn(n, len(ANCHORS), generator=gen)
    return rng, pos


def distance_matrix(p):
    eye = torch.eye(len(p), dtype=torch.bool)
    d2 = (p[:, None] - p[None]).pow(2).sum(-1)
    d = d2.sqrt()  # @fault
    return torch.where(eye, torch.zeros_like(d), d)


class Locator(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(6, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))

    def forward(self, r):
        return self.f(r / 2.5 - 1)


class Trainer:
    def __init__(self, model, lr=2e-3, clip=2.0):
        self.model, self.clip = model, clip
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.applied = 0

    def step(self, rng, pos):
        self.model.train()
        pred = distance_matrix(self.model(rng))
        ref = distance_matrix(pos)
        loss = nn.functional.smooth_l1_loss(pred, ref)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        if torch.isfinite(norm):  # a bad batch must not spoil the weights
            self.opt.step()
            self.applied += 1
        return loss.item()

    @torch.no_grad()
    def evaluate(self, rng, pos):
        self.model.eval()
        err = distance_matrix(self.model(rng)) - distance_matrix(pos)
        return err.abs().mean().item()


def main():
    gen = torch.Generator().manual_seed(1)
    test = sample(400, gen)
    tr = Trainer(Locator())
    run = 0.0
    for i in range(1, 401):
        run += tr.step(*sample(128, gen))
        if i % 80 == 0:
            print(f"{i:4d}: loss {run / 80:.5f}   mean distance error {tr.evaluate(*test):.4f} m")
            run = 0.0
    print("distance error", round(tr.evaluate(*test), 5))


if __name__ == "__main__":
    main()
