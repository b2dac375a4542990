"""Trainers whose model is a dict of arrays: what makes one of a small class, and two of them."""
