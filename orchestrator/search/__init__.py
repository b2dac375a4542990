"""Draw the settings of a cycle, and select the winning instance: pure functions."""
