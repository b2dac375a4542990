"""Serving: a champion in memory, swapped for newer ones under way, and a small HTTP service."""
