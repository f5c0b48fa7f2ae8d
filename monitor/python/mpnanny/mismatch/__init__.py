"""What a trainer and the engine that samples for it differ by."""
