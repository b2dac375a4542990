"""Committed cycles as logs for TensorBoard, where the config says `track`."""
