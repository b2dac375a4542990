"""Figures as data, and as pictures. Knows nothing of runs, reports or sources."""
