"""Flat files of fixed-size records: `shoal.Records` and the results of reading them."""

from shoal._records.appended import Appended
from shoal._records.records import Records
from shoal._records.scan import Groups, Scan

__all__ = ["Appended", "Groups", "Records", "Scan"]
