"""`python -m orchestrator`: the command where the code has been shipped but not installed."""

from orchestrator.cli import main

main()
