"""An append that was killed, and what other programs did to the file since: in doubt an error, never a cut."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Command, Interpreter

BEFORE = bytes(8 * 100)
"""Zeros, as those that are appended: only their number tells them apart."""


def words(count: int) -> bytes:
    """So many records of 8 bytes that count up."""
    return b"".join(number.to_bytes(8, "little") for number in range(1, count + 1))


@pytest.fixture
def killed(interpreter: Interpreter, tmp_path: Path) -> Callable[..., Path]:
    """Writes a file, and has an append to it killed when the file has so many bytes."""

    def kill(before: bytes, length: int, added: int = 800_000) -> Path:
        path = tmp_path / "f"
        path.write_bytes(before)
        script = """
            import resource, shoal, signal, sys
            # At this length the kernel kills it.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
            shoal.Records.append(sys.argv[1], bytes(int(sys.argv[3])), "<q")
        """
        assert interpreter.run(script, path, f"{length}", f"{added}").returncode < 0
        assert path.stat().st_size == length
        if "user.shoal.append" not in os.listxattr(path):
            pytest.skip("the file system has no extended attributes")
        return path

    return kill


# Within the first step of an append, at its end, and in a later step; behind records or in a new file.
@pytest.mark.parametrize("length", [4096, 8192, 262_144, 524_288 + 4096])
@pytest.mark.parametrize("before", [b"", BEFORE, words(100)], ids=["new", "zeros", "words"])
def test_of_a_killed_append_nothing_is_seen_and_the_next_one_truncates_it(
    killed: Callable[..., Path], before: bytes, length: int
) -> None:
    path = killed(before, length)
    records = len(before) // 8
    assert len(package.Records(path, "<q")) == records
    done = package.Records.append(path, [(7,)], "<q")
    assert done == package.Appended(records=1, first=records, cut=length - len(before))
    assert path.read_bytes() == before + (7).to_bytes(8, "little")


def written_anew(path: Path) -> None:
    path.write_bytes(words(1000))


def written_anew_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(8000))


def written_anew_longer(path: Path) -> None:
    path.write_bytes(words(200_000))


def cut_to_less_than_it_had(path: Path) -> None:
    os.truncate(path, 8 * 50)


def made_longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(words(1000))


def made_longer_by_blocks(path: Path) -> None:
    with path.open("ab") as file:
        file.write(words(1024))


def made_longer_than_the_append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(900_000))


def changed_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"user")


def replaced_by_a_copy(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy2(path, other)  # with its attributes
    other.replace(path)


CHANGES = [
    written_anew,
    written_anew_with_zeros,
    written_anew_longer,
    cut_to_less_than_it_had,
    made_longer,
    made_longer_by_blocks,
    made_longer_than_the_append,
    changed_in_place,
    replaced_by_a_copy,
]


@pytest.mark.parametrize("before", [b"", BEFORE], ids=["new", "zeros"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_after_a_killed_append_is_an_error_and_nothing_is_cut(
    killed: Callable[..., Path], shoal: Command, before: bytes, change: Callable[[Path], None]
) -> None:
    path = killed(before, 8192)
    follow = package.Records(path, "<q", follow=True)
    change(path)
    found = path.read_bytes()
    uses: list[Callable[[], object]] = [
        lambda: package.Records(path, "<q"),
        lambda: package.Records(path, "<q", tail="drop"),
        lambda: package.Records.append(path, [(7,)], "<q"),
        lambda: package.Records.append(path, [(7,)], "<q", tail="cut"),
    ]
    if change is not replaced_by_a_copy:  # what is open is still the file that was there
        uses.append(lambda: len(follow))
    for use in uses:
        with pytest.raises(package.IntegrityError, match="append") as caught:
            use()
        assert (caught.value.kind, caught.value.name) == ("unfinished", str(path))
        assert "shoal.Records.recover" in (caught.value.hint or "")
    done = shoal.run("records", str(path), "--format", "<q", "--count")
    assert (done.returncode, done.stdout) == (3, "")
    assert path.read_bytes() == found

    assert package.Records.recover(path, keep=True) == 0
    assert path.read_bytes() == found
    assert len(package.Records(path, "<q", tail="drop")) == len(found) // 8
    assert package.Records.append(path, [(7,)], "<q", tail="cut").first == len(found) // 8


def test_a_file_in_doubt_is_truncated_to_its_length_before_the_append_on_request(killed: Callable[..., Path]) -> None:
    path = killed(words(100), 8192)
    made_longer(path)
    assert package.Records.recover(path, keep=False) == 8192 - 800 + 8000
    assert path.read_bytes() == words(100)
    assert os.listxattr(path) == []
    assert package.Records.recover(path, keep=False) == 0
    with pytest.raises(package.NotFoundError):
        package.Records.recover(path.with_name("gone"), keep=True)
    assert not path.with_name("gone").exists()


def test_what_a_killed_append_left_can_be_kept(killed: Callable[..., Path]) -> None:
    path = killed(words(100), 8192)
    follow = package.Records(path, "<q", follow=True)
    assert len(follow) == 100
    assert package.Records.recover(path, keep=True) == 0
    assert len(follow) == len(package.Records(path, "<q")) == 1024


def test_a_file_as_long_as_before_the_append_is_whole_and_one_as_long_as_after_it_only_with_its_end(
    killed: Callable[..., Path],
) -> None:
    path = killed(words(100), 8192)
    path.write_bytes(words(100))
    assert b"".join(package.Records(path, "<q").raw()) == words(100)
    assert package.Records.append(path, [(7,)], "<q") == package.Appended(records=1, first=100, cut=0)
    path.unlink()
    for keep in (True, False):
        path = killed(words(100), 8192)
        path.write_bytes(words(100_100))
        with pytest.raises(package.IntegrityError, match="another program"):
            package.Records(path, "<q")
        assert package.Records.recover(path, keep=keep) == (0 if keep else 800_000)
        assert len(package.Records(path, "<q")) == (100_100 if keep else 100)
        path.unlink()


def test_bytes_of_another_program_within_an_append_are_an_error_and_stay(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.touch()
    script = """
        import shoal, sys
        try:
            print(shoal.Records.append(sys.argv[1], bytes(400_000_000), "<q"))
        except shoal.IntegrityError as error:
            print(error.kind, "another program wrote to it" in str(error))
    """
    process = interpreter.start(script, path)
    while path.stat().st_size < 1_000_000:
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    with path.open("ab") as file:
        file.write(words(3))
    length = path.stat().st_size
    process.send_signal(signal.SIGCONT)
    assert process.communicate() == ("unfinished True\n", "")
    assert length < 400_000_000
    assert words(3) in path.read_bytes()
    with pytest.raises(package.IntegrityError):
        package.Records(path, "<q")


def test_records_appended_to_any_file_are_seen(tmp_path: Path) -> None:
    def append(day: int, number: int) -> None:
        package.Records.append(tmp_path / f"day-{day}.bin", [(day,)] * number, "<q")

    append(1, 10)
    append(2, 10)
    follow = package.Records(f"{tmp_path}/day-*.bin", "<q", follow=True)
    opened = package.Records(f"{tmp_path}/day-*.bin", "<q")
    append(1, 5)
    append(2, 5)
    for records in (follow, opened.refresh()):
        assert [day for (day,) in records] == [1] * 15 + [2] * 15
    assert [day for (day,) in opened] == [1] * 10 + [2] * 10
    os.truncate(tmp_path / "day-1.bin", 8 * 12)
    with pytest.raises(package.IntegrityError, match=r"day-1.bin.*it had 15 records, and has 12"):
        len(follow)
    # A copy in another process has the same records, not others at the same places.
    again = pickle.loads(pickle.dumps(opened[8:12]))
    assert [day for (day,) in again] == [1, 1, 2, 2]
    data = pickle.dumps(opened)
    os.truncate(tmp_path / "day-1.bin", 8 * 9)
    with pytest.raises(package.ConfigError, match=r"day-1.bin' had 10 records when this was pickled, and has 9 now"):
        pickle.loads(data)
