"""Mirror an HTTP service with a listing. Later calls fetch only what is new or has changed.

TOKEN=... python mirror_service.py http://reports.example/v2 MIRROR

The service lists its objects at /reports as {"data": [{"id": 17, ...}, ...], "cursor": "..."},
and has each at /reports/17/content. Change the paths and fields below for another service;
docs/services.md explains them.
"""

import os
import sys
from pathlib import Path

import shoal


def mirror(url: str, directory: str) -> shoal.Report:
    """Copies every object of the service, or brings the copy up to date."""
    service = shoal.list_get(
        url,
        headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},
        list_path="/reports",
        names_field="data[].id",
        next_field="cursor",
        marker_param="after",
        get_path="/reports/{name}/content",
        name="{name}.json",
    )
    # With its times kept, an object that has not changed costs a request without a body.
    again = Path(directory, ".shoal").is_dir()
    return shoal.copy(
        service,
        directory,
        resume="update" if again else "auto",
        keep_times=True,
        limit_rate="50MB",
    )


if __name__ == "__main__":
    report = mirror(*sys.argv[1:])
    print(f"{report.written:,} objects fetched, {report.unchanged:,} unchanged")
