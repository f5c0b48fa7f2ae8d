"""A program as it is written beside what torch.compile makes of it."""
