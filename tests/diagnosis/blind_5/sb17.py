"""Detect machine hum in 16-bit PCM clips from log energies of short frames."""
import torch
from torch import nn

torch.manual_seed(40)
RATE, FRAME = 4000, 100


class Clips(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(RATE) / RATE
        self.label = torch.randint(2, (n,), generator=g)
        level = 10 ** (1.0 + 2.2 * torch.rand(n, 1, generator=g))
        noise = torch.randn(n, RATE, generator=g)
        beat = torch.sin(6.2832 * (3 + 2 * torch.rand(n, 1, generator=g)) * t)
        gain = 1 + 0.5 * self.label[:, None] * beat
        self.pcm = (level * noise * gain).round().clamp(-32768, 32767).to(torch.int16)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.pcm[i], self.label[i]


class FrontEnd(nn.Module):
    def __init__(self, dtype=torch.float16):  # @fault
        super().__init__()
        self.dtype = dtype

    def forward(self, pcm):
        frames = pcm.to(self.dtype).unfold(1, FRAME, FRAME)
        energy = (frames * frames).mean(-1)
        loge = torch.log(energy + 1.0)
        loge = loge.to(torch.get_default_dtype())
        return loge - loge.mean(1, keepdim=True)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = FrontEnd()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.Conv1d(16, 16, 7, padding=3), nn.ReLU())
        self.head = nn.Linear(32, 2)

    def forward(self, pcm):
        z = self.conv(self.front(pcm).unsqueeze(1))
        return self.head(torch.cat([z.mean(-1), z.amax(-1)], 1))


def accuracy(model, ds):
    with torch.no_grad():
        return (model(ds.pcm).argmax(1) == ds.label).to(torch.get_default_dtype()).mean().item()


def main():
    train, test = Clips(1600, 1), Clips(500, 2)
    loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True)
    model = Detector()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for epoch in range(6):
        for pcm, y in loader:
            loss = nn.functional.cross_entropy(model(pcm), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} test acc {accuracy(model, test):.3f}")
    print("test accuracy", round(accuracy(model, test), 4))


if __name__ == "__main__":
    main()
