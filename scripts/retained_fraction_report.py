"""The retained-fraction report of one or several runs: the same as `holdfast report`."""

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["report"]
    main()
