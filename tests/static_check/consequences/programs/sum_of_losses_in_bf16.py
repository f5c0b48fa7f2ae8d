import torch


def main():
    torch.manual_seed(0)
    total = torch.zeros((), dtype=torch.bfloat16, device="cuda")
    for _ in range(2000):
        loss = torch.rand(4, device="cuda").mean()
        total += loss  # <- warning
    return total / 2000


if __name__ == "__main__":
    main()
