"""One training instance: the OFFSET model, its one-pass trainer, scoring and the model file."""
