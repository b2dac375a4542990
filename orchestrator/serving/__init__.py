"""Serve the newest champion from memory, in the process or over HTTP."""
