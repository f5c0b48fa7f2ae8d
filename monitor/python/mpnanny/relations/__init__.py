"""Faults of the training loop and of its state: relations that have to hold, one a watcher."""
