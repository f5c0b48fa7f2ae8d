import torch
from torch import nn
from torch.nn.utils import clip_grad_value_


class Runner:
    def __init__(self, clip=0.5):
        self.clip = clip
        self.net = nn.Linear(16, 1).to("cuda")
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.amp_scaler = torch.cuda.amp.GradScaler()

    def train_step(self, x):
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.amp.autocast(dtype=torch.float16):
            loss = (self.net(x).float() - 1).pow(2).mean()
        self.amp_scaler.scale(loss).backward()
        clip_grad_value_(self.net.parameters(), self.clip)  # <- error
        self.amp_scaler.step(self.opt)
        self.amp_scaler.update()


def main():
    torch.manual_seed(0)
    runner = Runner()
    for _ in range(5):
        runner.train_step(torch.randn(64, 16, device="cuda"))


if __name__ == "__main__":
    main()
