"""The committed cycles of a run and the folder they are in."""
