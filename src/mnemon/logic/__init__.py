"""Floor 1: pure decisions. No await, no clock, no disk, no network."""
