"""`shoal.torch`: every object once per epoch, over all ranks and workers of their loaders, also after a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of forks while there are threads
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata walks over all that torch has
]


def length(obj: package.Object) -> tuple[str, int]:
    return obj.name, obj.size


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, int]:
    for number in range(500):
        (tmp_path / "tree" / f"{number % 5}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / f"{number % 5}/{number}").write_bytes(bytes(number))
    return {f"{number % 5}/{number}": number for number in range(500)}


def names(loader: Any) -> list[str]:
    return [name for name, _ in loader]


@pytest.mark.parametrize(("workers", "method"), [(0, None), (1, "fork"), (3, "fork"), (3, "spawn"), (2, "forkserver")])
def test_every_object_comes_once_over_all_workers(
    tmp_path: Path, tree: dict[str, int], workers: int, method: str | None
) -> None:
    import shoal.torch

    next(package.read(tmp_path / "tree"))  # a reader that is live when the workers are forked
    dataset = shoal.torch.ObjectDataset(tmp_path / "tree", length)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method)
    for _ in range(2):  # epochs
        found: list[Any] = [tuple(one) for one in loader]
        assert len(found) == len(tree)
        assert dict(found) == tree


@pytest.fixture(params=[0, 50], ids=["in order", "shuffled"])
def loaders(request: pytest.FixtureRequest, tmp_path: Path, tree: dict[str, int], monkeypatch: Any) -> Any:
    """Makes the loader of one of two ranks, with two workers, as a job with `torchrun` has it."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    import shoal.torch

    def make(rank: int, kind: Any = StatefulDataLoader, **options: Any) -> tuple[Any, shoal.torch.ObjectDataset]:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        dataset = shoal.torch.ObjectDataset(tmp_path / "tree", length, shuffle=request.param, seed=7)
        return kind(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", **options), dataset

    return make


def test_two_ranks_with_two_workers_share_the_objects(loaders: Any, tree: dict[str, int]) -> None:
    for kind in (torch.utils.data.DataLoader, None):
        parts = [names(loaders(rank, **({"kind": kind} if kind else {}))[0]) for rank in (0, 1)]
        assert sorted(parts[0] + parts[1]) == sorted(tree)
        assert min(map(len, parts)) > 150


def test_an_epoch_continues_after_a_restore_with_what_was_not_given(loaders: Any, tree: dict[str, int]) -> None:
    given: list[str] = []
    for rank in (0, 1):
        loader, _ = loaders(rank)
        iterator = iter(loader)
        before = [next(iterator)[0] for _ in range(61 + rank)]
        state = loader.state_dict()
        uninterrupted = [name for name, _ in iterator]
        restored, _ = loaders(rank)
        restored.load_state_dict(state)
        after = names(restored)
        assert after == uninterrupted
        given += before + after
        assert sorted(names(restored)) == sorted(before + after), "the next epoch is whole"
    assert sorted(given) == sorted(tree)


def test_a_position_after_the_last_object_is_the_begin_of_the_next_epoch(loaders: Any) -> None:
    loader, _ = loaders(0)
    whole = names(loader)
    state = loader.state_dict()
    restored, _ = loaders(0)
    restored.load_state_dict(state)
    found = names(restored) or names(restored)
    assert sorted(found) == sorted(whole)


def test_each_epoch_has_an_order_of_its_own_that_the_seed_decides(tmp_path: Path, tree: dict[str, int]) -> None:
    import shoal.torch

    def orders(seed: int, *, persistent: bool = False) -> list[list[str]]:
        dataset = shoal.torch.ObjectDataset(tmp_path / "tree", length, shuffle=100, seed=seed)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=persistent)
        found = []
        for epoch in range(2):
            dataset.set_epoch(epoch)
            found.append(names(loader))
        return found

    first, second = orders(1)
    assert sorted(first) == sorted(second) == sorted(tree)
    assert first != second
    assert orders(1) == [first, second]
    assert orders(1, persistent=True) == [first, second], "workers that live on hear of the epoch"
    assert orders(2)[0] != first


def test_a_position_of_another_split_is_refused(tmp_path: Path, tree: dict[str, int]) -> None:
    import shoal.torch

    dataset = shoal.torch.ObjectDataset(tmp_path / "tree", length)
    with pytest.raises(package.ConfigError, match="part"):
        dataset.load_state_dict({"epoch": 0, "given": 3, "part": (0, 4)})


def test_without_a_transform_it_is_the_name_and_the_bytes(tmp_path: Path) -> None:
    import shoal.torch

    (tmp_path / "f").write_bytes(b"data")
    assert list(shoal.torch.ObjectDataset([tmp_path / "f"])) == [("f", b"data")]


def test_a_failed_object_raises_at_the_end_of_the_epoch_also_from_a_worker(tmp_path: Path) -> None:
    import shoal.torch

    (tmp_path / "f").write_bytes(b"data")
    dataset = shoal.torch.ObjectDataset([tmp_path / "f", tmp_path / "gone"])
    for workers in (0, 1):
        iterator = iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers))
        assert next(iterator)[0] == "f"
        with pytest.raises(package.ObjectsFailedError, match="1 of 2 objects failed"):
            next(iterator)


def test_a_wrong_option_is_said_at_once(tmp_path: Path) -> None:
    import shoal.torch

    with pytest.raises(package.NotFoundError):
        shoal.torch.ObjectDataset(tmp_path / "nowhere")
    wrong: list[dict[str, Any]] = [{"workers": 0}, {"part": (0, 2)}, {"order": "any"}, {"shuffle": -1}]
    for options in wrong:
        with pytest.raises(package.ConfigError):
            shoal.torch.ObjectDataset(tmp_path, **options)
