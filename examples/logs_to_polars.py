"""Count the answers of web servers by day and status, from access logs larger than memory.

python logs_to_polars.py LOGS
"""

import sys

import polars as pl

import shoal

# 192.0.2.7 - - [23/Nov/2026:20:19:30 +0000] "GET /a HTTP/1.1" 200 1234
LINE = r'^\S+ \S+ \S+ \[(?<day>[^:]+)[^\]]*\] "[^"]*" (?<status>\d{3}) (?<bytes>\d+|-)'


def answers(logs: str) -> pl.DataFrame:
    """Returns answers and bytes by day and status, which are null for lines of another form."""
    parts = []
    for batch in shoal.read(logs, include="*.log").batches(100):  # 100 files at a time
        lines = (
            pl.DataFrame(batch)
            .select(line=pl.col("data").cast(pl.String).str.split("\n"))
            .explode("line")
        )
        found = (
            lines.filter(pl.col("line") != "")
            .select(pl.col("line").str.extract_groups(LINE))
            .unnest("line")
        )
        size = pl.col("bytes").cast(pl.Int64, strict=False)  # "-" for an answer without a body
        parts.append(found.group_by("day", "status").agg(pl.len(), size.sum()))
    return pl.concat(parts).group_by("day", "status").sum().sort("day", "status")


if __name__ == "__main__":
    print(answers(sys.argv[1]))
