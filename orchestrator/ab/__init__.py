"""The online A/B test: two tuners in one marketplace, and the Bayesian analysis of what they earn.

`counts` and `bayes` know nothing of the marketplace: they take anybody's daily counts.
"""
