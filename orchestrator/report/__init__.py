"""The report of one or several runs, computed from their journals alone.

Records become frames, frames become numbers, numbers become sections (claim, finding, verdict,
charts, tables), and sections become a page, figures and a summary. Each step is a function of the
step before. Nothing here samples settings or uses Ray. Only `retrain` trains: it repeats chosen
aborted instances.
"""
