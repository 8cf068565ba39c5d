"""The contestants of each job, one file a job."""
