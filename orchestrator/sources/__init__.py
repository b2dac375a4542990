"""Where chunks come from: one protocol, several sources."""
