"""`python -m orchestrator`: the command `holdfast` for code that is not installed."""

from orchestrator.cli import main

main()
