"""The programs that shoal is measured beside: a package for each job, in it a script for each way of doing the job."""
