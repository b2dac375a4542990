"""The regime map: where divergence costs instances and log-loss, and where a run lies on it."""
