"""Faults of the machine itself: these tests need root or a mount, and are skipped with a notice without.

What meets what. A cell names the file with the tests; "jobs" is a parameter `kind` of the tests, with the oracle of
`jobs.py`. A new kind of job is a row of `SETUPS` there, and meets all of them; a new destination gets a column.

| fault | copy | update, URL list, index, bucket, part, exact copy | `parquet:` | Ray |
|---|---|---|---|---|
| kill -9 inside a call | test_kill_sweep, _large | jobs in test_kill_sweep | test_parquet_kills | test_ray |
| power cut | test_power_cut | test_power_cut_of_jobs | test_power_cut | |
| disk full | test_full_disk, test_no_space | jobs in test_full_disk | test_parquet_faults | test_ray_faults |
| read-only, gone | test_read_only | jobs in test_read_only | test_parquet_faults | |
| failed sync | test_barrier_faults | jobs in test_barrier_faults | test_parquet_faults | |
| failed journal | test_journal_faults | jobs in test_journal_faults | | |
| pages, 403 | test_stops_giving | test_stops_giving (update), test_lists_of_urls, test_index, test_s3_lists | | |
| no such host | test_resolving | test_resolving (URL list) | | |
| driver killed | | | | test_ray, test_ray_faults |
| twin of a stopped run | test_twins | jobs in test_twins | | test_ray |
| disk that stands still | test_slow_disk | | | |
| few processes, little memory | test_limits | | | |
| kill, then power cut | test_in_place | | | |

Links, attributes, hard links and holes have faults of their own: calls for them that fail or kill
(`test_exact_faults.py`), and file systems that cannot hold them or are full (`test_exact_disks.py`).

Archives, records, `save` and `generate` have files of their own (`test_unzip_faults.py`, `test_save_faults.py`, …).
"""
