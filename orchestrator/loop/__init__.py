"""A run: resume, cycle after cycle, commit. `cycle` has the whole story on one screen."""
