"""The process around a run: how it ends, which file it gets, what it runs on, `mpnanny run`."""
