"""Publish champions as numbered versions in a place that serving processes follow."""
