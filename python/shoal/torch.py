"""Objects of a source as a PyTorch dataset: `import shoal.torch`, which needs PyTorch."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch.distributed
import torch.utils.data

from shoal import _read
from shoal._errors import ConfigError
from shoal._source_types import Described, Source
from shoal._sources import files

if TYPE_CHECKING:
    from shoal._shoal import Object


class ObjectDataset(torch.utils.data.IterableDataset[Any]):
    """The objects of a source, each once per epoch, over all ranks and all workers of their `DataLoader`s.

    Each worker process, forked or not, reads its own part (by the hash of the names) with its own threads. Ranks are
    those of `torch.distributed` if it is initialised, else of the variables `RANK` and `WORLD_SIZE`. The parts are
    only about equal: ranks that must do the same number of steps need `torch.distributed.algorithms.join`, or a fixed
    number of steps per epoch.

    Objects have the order of the source, or with `shuffle` a different order in each epoch. A failed object raises
    `ObjectsFailedError` at the end of the epoch, unless `on_error` says otherwise.

    `torchdata.stateful_dataloader.StatefulDataLoader` saves and restores the position. A restored epoch reads its first
    objects again and discards them. It continues exactly only if the source still has the same objects.

    Example:
        >>> dataset = shoal.torch.ObjectDataset("photos/**/*.jpg", lambda obj: decode(obj.data), shuffle=10_000)
        >>> loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=4)
        >>> for epoch in range(10):
        ...     dataset.set_epoch(epoch)
        ...     for batch in loader: ...
    """

    def __init__(
        self,
        source: Source,
        transform: Callable[[Object], Any] | None = None,
        *,
        shuffle: int = 0,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Describes what to read. Reading starts with the first iteration.

        Args:
            source: As for `shoal.read`.
            transform: A function of each object; by default it returns the pair `(name, bytes)`, which can be sent from
                a worker process to the main one.
            shuffle: Draw each object at random from this many in memory, in each worker; 0 does not shuffle.
            seed: Seed of the order; the order of an epoch is the same each time.
            options: As for `shoal.read`, except `part` and `order`, which the dataset sets.

        Raises:
            ConfigError: An option is wrong.
            NotFoundError: The source does not exist.
        """
        super().__init__()
        for name in ("part", "order"):
            if name in options:
                raise ConfigError(f"{name} is not an option of ObjectDataset, which sets it for each rank and worker")
        if type(shuffle) is not int or shuffle < 0:
            raise ConfigError(f"`shuffle` must be a number of objects, 0 or more, got {shuffle!r}")
        if not isinstance(source, str | os.PathLike | Described):
            source = files(source)  # an iterator can be read only once
        self._source = source
        self._transform = transform
        self._shuffle = shuffle
        self._seed = seed
        self._options = options
        # Shared with worker processes that live longer than an epoch.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._ranks: tuple[int, int] | None = None
        self._given = 0  # in this epoch, in this process
        self._restored: dict[str, Any] | None = None
        _read.read(source, **options)  # raises errors here, not in a worker

    def set_epoch(self, epoch: int) -> None:
        """Sets the next epoch; with `shuffle`, each epoch has its own order."""
        self._epoch.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in this process's part, for `StatefulDataLoader`."""
        return {"epoch": int(self._epoch), "given": self._given, "part": self._part()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position when the next iteration begins.

        Raises:
            ConfigError: The position is from another number of ranks or workers.
        """
        if tuple(state["part"]) != self._part():
            raise ConfigError(
                f"the position is that of part {tuple(state['part'])}, this process reads part {self._part()}",
                hint="restore with as many ranks and workers as when it was saved",
            )
        self._restored = state
        self._given = state["given"]

    def __iter__(self) -> Iterator[Any]:
        """Reads this process's part."""
        restored, self._restored = self._restored, None
        epoch, skipped = (restored["epoch"], restored["given"]) if restored else (int(self._epoch), 0)
        return self._read(epoch, skipped)

    def __getstate__(self) -> dict[str, Any]:
        """Passes the rank to a worker process, in which `torch.distributed` is not initialised."""
        return {**self.__dict__, "_ranks": self._rank()}

    def _read(self, epoch: int, skipped: int) -> Iterator[Any]:
        part = self._part()
        self._given = skipped
        with _read.read(self._source, order="source", part=part, **self._options) as reader:
            objects = (
                _shuffled(reader, self._shuffle, f"{self._seed} {epoch} {part}") if self._shuffle else iter(reader)
            )
            for at, obj in enumerate(objects):
                if at >= skipped:
                    self._given += 1
                    yield (obj.name, obj.bytes()) if self._transform is None else self._transform(obj)
        self._given = 0  # a state saved now is the start of the next epoch

    def _part(self) -> tuple[int, int]:
        """Returns the part of this process, as for `shoal.read`."""
        rank, ranks = self._rank()
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return rank, ranks
        return rank * worker.num_workers + worker.id, ranks * worker.num_workers

    def _rank(self) -> tuple[int, int]:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return self._ranks or (int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def _shuffled(objects: Iterable[Object], window: int, seed: str) -> Iterator[Object]:
    """Draws from a window of objects; the same order for the same seed."""
    draw = random.Random(seed)  # noqa: S311  # no secret: it has to be the same each time
    waiting: list[Object] = []
    for obj in objects:
        if len(waiting) < window:
            waiting.append(obj)
            continue
        at = draw.randrange(window)
        yield waiting[at]
        waiting[at] = obj
    draw.shuffle(waiting)
    yield from waiting
