"""The report of one or several runs, from their journals alone.

Records become frames, frames numbers, numbers sections (claim, finding, verdict, charts, tables);
sections become a page, pictures and a summary. Each step is a function of what comes before it.
Nothing here draws settings or asks Ray, and only `retrain` trains: chosen aborts, once more.
"""
