"""Steps whose tensors are on a device, and whose figures arrive some steps later."""
