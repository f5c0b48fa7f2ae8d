import torch


def main():
    p = torch.tensor([0.1, 0.5, 1.0], dtype=torch.float16, device="cuda")
    p = p.clamp(min=1e-4, max=1 - 1e-4)  # <- warning
    return -torch.log(1 - p)


if __name__ == "__main__":
    main()
