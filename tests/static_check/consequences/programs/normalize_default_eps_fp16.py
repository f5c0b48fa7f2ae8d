import torch
import torch.nn.functional as F


def main():
    torch.manual_seed(0)
    batch = torch.randn(4, 8, device="cuda", dtype=torch.float16)
    batch[2] = 0
    return F.normalize(batch, dim=-1)  # <- warning


if __name__ == "__main__":
    main()
