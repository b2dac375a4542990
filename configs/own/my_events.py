"""A source of your own: impressions in an SQLite database, a cycle for every 15 minutes."""

import sqlite3

import pandas as pd


class Source:
    """The rows of table `impressions` (time in seconds, user_age, gender, campaign, clicked)."""

    def __init__(self, database, minutes=15):
        """The arguments are `source.options` of the config."""
        self.database, self.seconds = database, minutes * 60
        with sqlite3.connect(database) as db:
            span = db.execute("SELECT min(time), max(time) FROM impressions").fetchone()
        self.first, self.last = span

    def events(self, cycle):
        """The rows of this cycle, the same ones whenever it is asked for; None after the last."""
        start = self.first + cycle * self.seconds
        if start > self.last:
            return None
        query = "SELECT * FROM impressions WHERE time >= ? AND time < ? ORDER BY time, rowid"
        with sqlite3.connect(self.database) as db:  # one for each call: another thread may ask
            return pd.read_sql_query(query, db, params=(start, start + self.seconds))
