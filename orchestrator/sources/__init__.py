"""Where chunks come from: one protocol, one folder for each kind of source."""
