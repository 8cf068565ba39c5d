"""`shoal.torch`: every object once, over all workers of a data loader, forked ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

if TYPE_CHECKING:
    from pathlib import Path


def length(obj: package.Object) -> tuple[str, int]:
    return obj.name, obj.size


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, int]:
    for number in range(500):
        (tmp_path / "tree" / f"{number % 5}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / f"{number % 5}/{number}").write_bytes(bytes(number))
    return {f"{number % 5}/{number}": number for number in range(500)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks while there are threads
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than this machine has cores
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


def test_without_a_transform_it_is_the_name_and_the_bytes(tmp_path: Path) -> None:
    import shoal.torch

    (tmp_path / "f").write_bytes(b"data")
    assert list(shoal.torch.ObjectDataset([tmp_path / "f"])) == [("f", b"data")]


def test_a_failed_object_ends_the_epoch_and_a_wrong_option_is_said_at_once(tmp_path: Path) -> None:
    import shoal.torch

    with pytest.raises(package.NotFoundError):
        list(shoal.torch.ObjectDataset([tmp_path / "gone"]))
    with pytest.raises(package.ConfigError):
        shoal.torch.ObjectDataset(tmp_path / "nowhere")
    with pytest.raises(package.ConfigError):
        shoal.torch.ObjectDataset(tmp_path, workers=0)
