"""What the next cycle tries, and which instance wins: pure functions."""
