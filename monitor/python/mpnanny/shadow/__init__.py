"""Shadow steps: every operator a second time in FP64, and what differs (docs/shadow.md)."""
