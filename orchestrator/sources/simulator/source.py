"""The marketplace as a source of chunks."""

import numpy as np

from divergence.jit import compiling
from orchestrator.sources.protocol import Events
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.marketplace import Market, Marketplace, Numbers
from orchestrator.sources.simulator.spec import SPEC
from orchestrator.sources.simulator.state import Floats, Visits
from orchestrator.sources.simulator.table import Names, event_table
from trainer.features import FeatureSpec


class Simulator:
    """Gives the chunk of any cycle at the same cost; the stream never ends."""

    def __init__(self, config: SimulatorConfig, spec: FeatureSpec = SPEC) -> None:
        """The market of this config; `spec` may leave features out."""
        self.spec = spec
        with compiling():  # creating a market calls every kernel but this one
            self.marketplace = Marketplace(config)
            self.marketplace.clicks(0, np.zeros(0))
        self._names = Names(config.geos, config.topics, config.categories)

    def events(self, cycle: int) -> Events:
        """The log of this cycle; empty if no ad is eligible."""
        world, (market, visits, ads) = self.marketplace, self._impressions(cycle)
        truth = world.click_probability(market, visits, ads)
        table = event_table(self._names, visits, market, ads, world.clicks(cycle, truth))
        origin = f"simulator seed {world.config.seed}, cycle {cycle}"
        return Events(cycle, table, origin, truth=truth)

    def truth(self, cycle: int) -> Floats:
        """The true click probability of each event of `events(cycle)`: for evaluation only."""
        return self.marketplace.click_probability(*self._impressions(cycle))

    def _impressions(self, cycle: int) -> tuple[Market, Visits, Numbers]:
        world = self.marketplace
        market = world.market(cycle)
        visits = world.arrivals(cycle, None if market.campaigns.live.any() else 0)
        return market, visits, world.serve(market, len(visits.user))
