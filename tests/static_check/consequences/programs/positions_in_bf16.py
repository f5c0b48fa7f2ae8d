import torch

LENGTH = 2048


def main():
    positions = torch.arange(LENGTH, dtype=torch.bfloat16, device="cuda")  # <- warning
    frequencies = 1.0 / 10000 ** (torch.arange(0, 32, 2, device="cuda") / 32)
    return torch.sin(positions[:, None].float() * frequencies)


if __name__ == "__main__":
    main()
