"""Rules that keep latent vectors small, and detection of divergence. Usable on its own."""
