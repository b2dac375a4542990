"""Events from a folder that keeps filling: each new file is the next chunk."""
