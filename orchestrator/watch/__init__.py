"""What people and monitors see of a run: console, metrics, health, logs."""
