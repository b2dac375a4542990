"""The champion, given to whoever serves it: a place that versions are written to, and followers."""
