"""Binary segmentation of discs with a small convolutional network."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(5)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)
SIDE = 20


class Discs(Dataset):
    def __init__(self, count):
        rows = torch.arange(SIDE).view(1, SIDE, 1)
        cols = torch.arange(SIDE).view(1, 1, SIDE)
        cy = torch.randint(5, SIDE - 5, (count, 1, 1))
        cx = torch.randint(5, SIDE - 5, (count, 1, 1))
        radius = torch.randint(3, 7, (count, 1, 1))
        inside = (rows - cy) ** 2 + (cols - cx) ** 2 <= radius**2
        noise = torch.randn(count, SIDE, SIDE) * 40
        picture = torch.where(inside, 150.0, 90.0) + noise
        self.pictures = picture.clamp(0, 255).to(torch.uint8)
        self.masks = (inside * 255).to(torch.uint8)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture = self.pictures[i].to(torch.get_default_dtype()) / 255.0
        mask = self.masks[i].to(torch.get_default_dtype())  # @fault
        return picture.unsqueeze(0), mask.unsqueeze(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.mid = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.mid(a))
        c = F.relu(self.up(b))
        return self.out(torch.cat([a, c], 1))


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        right = total = 0
        for picture, mask in DataLoader(data, 64):
            right += ((net(picture) > 0) == (mask > 0)).sum().item()
            total += mask.numel()
    net.train()
    return right / total


def main():
    train, held = Discs(480), Discs(96)
    loader = DataLoader(train, 16, shuffle=True, generator=torch.Generator().manual_seed(1))
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(3):
        for picture, mask in loader:
            loss = F.binary_cross_entropy_with_logits(net(picture), mask)  # @fault
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy(net, held):.4f}")


if __name__ == "__main__":
    main()
