"""Objects of a source as a PyTorch dataset: `import shoal.torch`, for those who have PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch.utils.data

from shoal import _options, _read

if TYPE_CHECKING:
    from shoal._shoal import Object


class ObjectDataset(torch.utils.data.IterableDataset[Any]):
    """The objects of a source, each once, over all workers of a `DataLoader`.

    Each worker process, forked or not, reads a part of its own (by the hash of the names), with threads of its own.
    Objects come in no particular order. One that fails ends the epoch with its exception, unless `on_error="record"`.

    Example:
        >>> dataset = shoal.torch.ObjectDataset("photos/**/*.jpg", lambda obj: decode(obj.data))
        >>> loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=4)
    """

    def __init__(
        self, source: _options.Source, transform: Callable[[Object], Any] | None = None, **options: Any
    ) -> None:
        """Describes what is read; nothing happens before the first object is asked for.

        Args:
            source: As for `shoal.read`.
            transform: What becomes of each object before it is handed on; by default the pair `(name, bytes)`, which
                can be sent from a worker process to the main one.
            options: As for `shoal.read`, but for `shard`, which is the worker's. `on_error` is `"raise"` by default.

        Raises:
            ConfigError: An option is wrong, or the source is not there.
        """
        super().__init__()
        if not isinstance(source, str | _options.ListGet | _options.Files | _options.Archives):
            from shoal import _api

            source = _api.files(source)  # an iterator could be walked only once
        self._source = source
        self._transform = transform
        self._options = {"on_error": "raise", **options}
        _read.read(source, **self._options)  # what is wrong is said here, not in a worker

    def __iter__(self) -> Iterator[Any]:
        """Reads the worker's part."""
        worker = torch.utils.data.get_worker_info()
        shard = (worker.id, worker.num_workers) if worker is not None else None
        with _read.read(self._source, shard=shard, **self._options) as reader:
            for obj in reader:
                yield (obj.name, bytes(obj)) if self._transform is None else self._transform(obj)
