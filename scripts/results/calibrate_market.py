"""How predictable the simulated market is, by the scale of its signals.

    python -m scripts.results.calibrate_market [--cycles 96] [SCALE ...]

Scale s means interaction_sd = 2.0 s and quality_sd = 1.5 s. Without scales it measures those of
the config key `signal`. For every scale and preset it prints the mean gain of the reference model
over a constant CTR and that of the simulator's own probabilities, over seeds 101 to 105 (the
report's seeds 1 to 5 have no part in this), with the standard deviation between seeds.
"""

import argparse
from statistics import mean, stdev

from orchestrator.sources.describe.predictability import Predictability, Reference
from orchestrator.sources.simulator.config import PRESETS, SIGNALS, SimulatorConfig
from orchestrator.sources.simulator.source import Simulator

INTERACTION_SD, QUALITY_SD = 2.0, 1.5
SEEDS = range(101, 106)


def measured(preset: str, interaction_sd: float, seed: int, cycles: int) -> Predictability:
    """The predictability of one market's first cycles."""
    config = SimulatorConfig.model_validate(
        {
            "preset": preset,
            "seed": seed,
            "events_per_cycle": 20_000,
            "interaction_sd": interaction_sd,
            "quality_sd": interaction_sd * QUALITY_SD / INTERACTION_SD,
        }
    )
    source = Simulator(config)
    reference = Reference(source.spec)
    for cycle in range(cycles):
        reference.add(source.events(cycle))
    return reference.result()


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scales", nargs="*", type=float)
    parser.add_argument("--cycles", type=int, default=96)
    options = parser.parse_args()
    named = {signal["interaction_sd"]: name for name, signal in SIGNALS.items()}
    deviations = [INTERACTION_SD * scale for scale in options.scales] or sorted(named)
    print("| signal | interaction_sd | preset | CTR | gain | between seeds | ideal |")
    print("|---|---|---|---|---|---|---|")
    for deviation in deviations:
        for preset in PRESETS:
            found = [measured(preset, deviation, seed, options.cycles) for seed in SEEDS]
            gains = [one.gain or 0.0 for one in found]
            ctr = mean(one.clicks / one.events for one in found)
            ideal = mean(one.ideal or 0.0 for one in found)
            print(
                f"| {named.get(deviation, '')} | {deviation:g} | {preset} | {ctr:.2%} "
                f"| {mean(gains):.1%} | {stdev(gains):.1%} | {ideal:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
