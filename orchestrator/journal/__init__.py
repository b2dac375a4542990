"""The committed cycles of a run, and the run folder that holds them."""
