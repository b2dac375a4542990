"""All settings of the simulated marketplace, with units and reasons; presets and signals.

The presets were chosen to be plausible, before any model was trained on them, from:

1. Shtoff and Koren (the paper): native ads, CPC auctions, hundreds of thousands of active ads,
   swift turnover, ads that vanish and return (budget, pause, flag), cycles of 15 minutes.
2. CTR of native units: 0.4-1.5% at the end of desktop articles, 0.8-3% amid mobile ones
   (mediabuyer.site/glossary/ctr). Our three are 1%, 1.5% and 2.5%.
3. Ads wear out fast: over 11,000 campaigns CTR halved within 48 hours of going live (Webtrends
   2011, by mthink.com/short-lifetime-facebook-ads); fatigue brings "a dramatic drop" of CTR in
   Gemini native (Aharon et al., arXiv:2312.05052).
4. Lifetimes: creatives last 36 days on average, 10 days with the best advertisers
   (pattern89.com, 2020); tests and news-driven content live for hours to days. So: two weeks,
   four days, 16 hours.
5. Rhythm: traffic peaks at 9 in the evening and dips at weekends (ONS on exchange traffic);
   phones take evenings and weekends, desktops office hours (addthis.com 2013, Chitika 2013).
6. Budgets run dry: some advertisers "exhaust their daily preset ad budgets by midday" (Fader, in
   the Wall Street Journal).

Drift and shocks have no public measure. Calm: tastes take weeks to turn and a shock comes once a
week. Normal: days, and one shock a day, as news has it. Stormy: hours, and several shocks a day,
as on the day of an election or in the week before Christmas.

Signals were calibrated to the predictability of public logs: the gain of a model over a constant
CTR, which is 3% on Taobao, 18% on Avazu and 23% on Criteo (sources, and how it is measured:
`orchestrator/sources/describe/predictability.py`). Measured on the first day (96 cycles of 20,000
events), mean and standard deviation of seeds 101 to 105, and in brackets the gain of the
simulator's own probabilities, which no model can exceed:

    signal  interaction_sd, quality_sd   calm             normal           stormy
    taobao  0.7, 0.525                    2.5 ±0.5 (9)     2.7 ±0.5 (9)     3.3 ±1.1 (11) %
    faint   0.8, 0.6                      3.8 ±0.7 (11)    4.0 ±0.4 (11)    4.3 ±1.3 (13)
    avazu   1.64, 1.23                   19.1 ±3.1 (34)   18.1 ±2.1 (34)   16.8 ±2.6 (34)
    criteo  2.0, 1.5                     25.7 ±3.1 (44)   24.4 ±1.9 (42)   21.3 ±2.7 (43)

The means of the three presets are 2.8, 4.0, 18.0 and 23.8%, with standard errors of up to 0.7.
CTRs are those of the presets: only the predictability is that of the public log. `faint` is the
market of earlier versions. To measure again: python -m scripts.results.calibrate_market
"""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from orchestrator.sources.protocol import Source, SourceConfig
from orchestrator.sources.simulator.spec import SPEC
from orchestrator.validation.strict import Instant
from trainer.features import FeatureSpec

Count = Annotated[int, Field(gt=0)]
Positive = Annotated[float, Field(gt=0)]
Hours = Positive
Rate = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Deviation = Annotated[float, Field(ge=0, le=5)]

PRESETS: Mapping[str, Mapping[str, float]] = {
    "calm": {
        "campaign_lifetime_h": 336.0,
        "depletion_share": 0.05,
        "pauses_per_day": 0.1,
        "flags_per_week": 0.05,
        "ctr": 0.010,
        "drift_share": 0.3,
        "taste_drift_h": 336.0,
        "quality_drift_h": 168.0,
        "fatigue": 0.15,
        "shocks_per_day": 0.15,
        "shock_size": 0.4,
    },
    "normal": {},
    "stormy": {
        "campaign_lifetime_h": 16.0,
        "depletion_share": 0.4,
        "pauses_per_day": 1.0,
        "flags_per_week": 0.5,
        "ctr": 0.025,
        "drift_share": 0.7,
        "taste_drift_h": 8.0,
        "quality_drift_h": 6.0,
        "fatigue": 0.5,
        "shocks_per_day": 5.0,
        "shock_size": 1.2,
    },
}
"""Where a preset differs from the defaults below, which are `normal`."""

SIGNALS: Mapping[str, Mapping[str, float]] = {
    "faint": {"interaction_sd": 0.8, "quality_sd": 0.6},
    "taobao": {"interaction_sd": 0.7, "quality_sd": 0.525},
    "avazu": {"interaction_sd": 1.64, "quality_sd": 1.23},
    "criteo": {"interaction_sd": 2.0, "quality_sd": 1.5},
}
"""How predictable clicks are. The last three are multiples of one pair."""


class SimulatorConfig(SourceConfig):
    """A marketplace. The preset and the signal fill every setting that is not given."""

    own_features: ClassVar[FeatureSpec | None] = SPEC

    kind: Literal["simulator"] = "simulator"
    preset: Literal["calm", "normal", "stormy"] = "normal"
    """How fast the market changes: how long campaigns last, how often tastes shift."""
    signal: Literal["faint", "taobao", "avazu", "criteo"] | None = Field(
        default="criteo", exclude=True
    )
    """How predictable clicks are: fills `interaction_sd` and `quality_sd`, as on a public log. Not
    stored with a run: these two are. None: they were given, and no signal has them."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Another seed gives other users, ads, shocks and clicks."""
    start: Instant = datetime(2024, 1, 1, tzinfo=UTC)
    """When cycle 0 starts; a Monday, so that week 1 is complete. Hours and days are in UTC."""
    cycle_minutes: Annotated[int, Field(gt=0, le=240)] = 15
    """Length of a cycle. The market does not change within it, so a cycle must not be long."""
    events_per_cycle: Annotated[int, Field(gt=0, le=50_000_000)] = 20_000
    """Mean number of events; exact in every cycle when daily_swing and weekly_swing are 0."""

    users: Annotated[int, Field(gt=0, le=50_000_000)] = 200_000
    """Number of users; far fewer than a real market's, more than a week of small chunks shows."""
    user_skew: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Zipf exponent of user activity: at 0.5 the busiest 1% make 10% of the events."""
    views_per_user_day: Positive = 10.0
    """Ads seen a day by the average user, whether or not in our sample; drives fatigue."""
    geos: Annotated[int, Field(gt=0, le=10_000)] = 50
    """Number of regions; about the states of the US."""
    topics: Annotated[int, Field(ge=8, le=10_000)] = 120
    """Number of interests a user can have; about the second tier of ad taxonomies, thinned."""
    topic_lifetime_h: Hours = 240.0
    """Mean hours a user keeps an interest; ten days, a purchase or a season's sport."""

    ads: Annotated[int, Field(gt=0, le=5_000_000)] = 2_000
    """Ads in the market at a time, paused ones included; rounded up to full campaigns."""
    creatives_per_campaign: Annotated[int, Field(gt=0, le=1000)] = 4
    """Ads of one campaign; a handful is what an advertiser tests at a time."""
    advertisers: Count = 150
    """Number of advertisers; each sells in one category, the first ones have most campaigns."""
    categories: Annotated[int, Field(gt=0, le=1000)] = 24
    """Number of ad categories; about the first tier of the IAB taxonomy."""
    popularity_skew: Annotated[float, Field(ge=0, le=3)] = 1.0
    """Zipf exponent of campaign popularity; 1 is Zipf's law, usual for content and ads."""
    bid_usd: Positive = 0.5
    """Median bid per click in US dollars; a native click costs some dimes to a dollar."""

    campaign_lifetime_h: Hours = 96.0
    """Mean hours from a campaign's birth to its death, when another replaces it."""
    lifetime_spread: Annotated[float, Field(ge=0, le=2)] = 0.7
    """Spread of lifetimes (sigma of their logarithm): most are short, some last for months."""
    depletion_share: Share = 0.2
    """Share of campaign-days whose budget runs out; the campaign is then gone until midnight."""
    pauses_per_day: Rate = 0.3
    """Pauses by the advertiser, per campaign and day."""
    pause_h: Hours = 3.0
    """Mean hours of a pause: a meeting's length to an afternoon's."""
    flags_per_week: Rate = 0.2
    """Flags by the system, per campaign and week."""
    flag_h: Hours = 12.0
    """Mean hours until a flagged campaign returns: a human review, half a day."""

    daily_swing: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Volume's daily swing as a share of its mean; 0.5 makes 9 pm three times 9 am's low."""
    weekly_swing: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """How much less a weekend day brings than a weekday, as a share of the mean."""
    mix_swing: Annotated[float, Field(ge=0, lt=1)] = 0.4
    """Swing of the mix: desktops by hour and weekday, ad categories by hour; 0 is no swing."""

    ctr: Annotated[float, Field(gt=0, le=0.2)] = 0.015
    """Mean click probability in the long run; single weeks differ, as campaigns do."""
    rank: Annotated[int, Field(gt=0, le=64)] = 6
    """Rank of the interaction of users and ads: a few directions of taste."""
    interaction_sd: Deviation = SIGNALS["criteo"]["interaction_sd"]
    """Standard deviation of the interaction, in logits; the part a latent model can win."""
    quality_sd: Deviation = SIGNALS["criteo"]["quality_sd"]
    """Standard deviation of ad quality, in logits: at 0.6, one sigma is 1.8 times the CTR."""
    hidden_sd: Deviation = 0.4
    """Standard deviation, in logits, of what OFFSET models cannot fit: see `click_probability`."""
    drift_share: Share = 0.5
    """Share of the variance of tastes and ad quality that drifts; the rest is constant."""
    taste_drift_h: Hours = 72.0
    """Hours after which the drifting part of tastes is replaced."""
    quality_drift_h: Hours = 48.0
    """Hours after which the drifting part of an ad's quality is replaced."""
    fatigue: Annotated[float, Field(ge=0, le=5)] = 0.3
    """Logits lost for each e-fold of (1 + views of the campaign by the user so far)."""
    shocks_per_day: Rate = 1.0
    """Sudden shocks (news, holidays, outages) per day."""
    shock_h: Hours = 3.0
    """Mean hours until a shock has faded away; about a news story's day."""
    shock_size: Deviation = 0.8
    """Mean jump of a hit category's logit, up or down; upward jumps bring demand as well."""
    shock_reach: Share = 0.25
    """Share of the categories that a shock hits."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """A stored config has no `signal`: that of its values is set, and reads back the same."""
        if not isinstance(given, Mapping):
            return given
        preset, signal = given.get("preset", "normal"), given.get("signal")
        signal = "criteo" if signal is None else signal
        if not (isinstance(preset, str) and isinstance(signal, str)):
            return given
        filled = {**PRESETS.get(preset, {}), **SIGNALS.get(signal, {}), **given}
        if signal not in SIGNALS:
            return filled
        named = (name for name, values in SIGNALS.items() if values.items() <= filled.items())
        return filled | {"signal": next(named, None)}

    @model_validator(mode="after")
    def _absences_fit(self) -> Self:
        for name, per_day, hours in (
            ("pauses_per_day and pause_h", self.pauses_per_day, self.pause_h),
            ("flags_per_week and flag_h", self.flags_per_week / 7, self.flag_h),
        ):
            if per_day * hours > 16:
                raise ValueError(
                    f"{name} must leave a campaign active for 8 hours a day, "
                    f"but pause it for {per_day * hours:g} of 24"
                )
        return self

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """The marketplace as a stream without end."""
        from orchestrator.sources.simulator.source import Simulator  # compiles on import

        return Simulator(self, spec)

    @property
    def events_of_a_cycle(self) -> int | None:
        """Their mean."""
        return self.events_per_cycle

    @property
    def campaigns(self) -> int:
        """Number of places for campaigns: each always holds one, which another replaces."""
        return -(-self.ads // self.creatives_per_campaign)
