"""For all tests, since Ray reads its settings when the first of them imports it."""

from orchestrator.ray_env import local_environment

local_environment()
