"""Lines on Ray or in this process: every instance keeps its own model."""
