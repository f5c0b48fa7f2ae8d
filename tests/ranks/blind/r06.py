"""ranks: 4

Image-text contrastive training: features are gathered from all ranks, DDP averages the
gradients.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class ImageEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.proj = nn.Linear(32, dim, bias=False)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.proj(x.mean(dim=(2, 3)))


class TextEncoder(nn.Module):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab, 32)
        self.ln = nn.LayerNorm(32)
        self.proj = nn.Linear(32, dim, bias=False)

    def forward(self, tokens):
        return self.proj(self.ln(self.token_embedding(tokens).mean(dim=1)))


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = ImageEncoder()
        self.text = TextEncoder()
        self.logit_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, images, tokens):
        image = self.visual(images)
        text = self.text(tokens)
        image = image / image.norm(dim=-1, keepdim=True)  # @fault
        text = text / text.norm(dim=-1, keepdim=True)
        return image, text, self.logit_scale.exp()


class GatherLayer(torch.autograd.Function):
    """Features of all ranks, with the gradient going back to the rank that made them."""

    @staticmethod
    def forward(ctx, x):
        gathered = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, x.contiguous())
        return torch.cat(gathered)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


class PairDataset:
    """Pictures and captions made on the fly; a picture that cannot be read comes out black."""

    unreadable = {3439}

    def __init__(self):
        g = torch.Generator().manual_seed(4)
        self.pictures = torch.randn(20, 3, 8, 8, generator=g)
        self.captions = torch.randint(0, 40, (20, 6), generator=g)

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        topic = int(torch.randint(0, 20, (1,), generator=g))
        if index in self.unreadable:
            return torch.zeros(3, 8, 8), self.captions[topic]
        return self.pictures[topic] + 0.5 * torch.randn(3, 8, 8, generator=g), self.captions[topic]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)

    model = CLIP()
    ddp = DDP(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=2e-3)
    dataset = PairDataset()
    batch = 8
    order = torch.randperm(4096, generator=torch.Generator().manual_seed(16))[rank::world].tolist()

    for step in range(35):
        items = [dataset[i] for i in order[step * batch : (step + 1) * batch]]
        images, tokens = (torch.stack(column) for column in zip(*items, strict=True))
        image, text, scale = ddp(images, tokens)
        all_image = GatherLayer.apply(image)
        all_text = GatherLayer.apply(text)
        logits = scale * all_image @ all_text.t()
        labels = torch.arange(logits.shape[0])
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
