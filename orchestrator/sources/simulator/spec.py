"""The features of the simulated log."""

from trainer.features import Feature, FeatureSpec

SPEC = FeatureSpec(
    user=(
        Feature("age"),
        Feature("gender"),
        Feature("geo"),
        Feature("device"),
        Feature("hour"),
        Feature("last_category"),
        Feature("interests", multi=True, weights="interest_weights"),
    ),
    ad=(Feature("creative"), Feature("campaign"), Feature("advertiser"), Feature("category")),
)
