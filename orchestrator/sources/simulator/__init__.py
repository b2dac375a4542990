"""A native-ad marketplace that keeps changing, with known click probabilities."""
