"""The online A/B test: two tuners in one marketplace, and a Bayesian analysis of their results.

`counts` and `bayes` do not depend on the marketplace: they work on any daily counts.
"""
