"""Every dtype of NumPy, however its elements are laid out: the file holds the same values, or the item is a failure.

Not here: tables (`test_save_every_type.py`), arrays that are filled again (`test_save_producers.py`).
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saving import all_saved

numpy = pytest.importorskip("numpy", reason="numpy is not installed")

Array = Any  # numpy is not imported for its types

NUMBERS = ["?", "b", "B", *(order + code for order in "<>" for code in ("i2", "u2", "i4", "u4", "i8", "u8"))]
FLOATS = [order + code for order in "<>" for code in ("f2", "f4", "f8")]
TEXTS = ["S1", "S7", "<U1", "<U5", ">U5"]
OTHERS = ["g", ">g", "<c8", ">c8", "<c16", ">c16", "G"]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "7D"]
TIMES = [f"{order}{code}8[{unit}]" for code in "mM" for order, unit in zip("<>" * 8, UNITS, strict=False)] + [
    "<M8",
    "<m8",
]
REFUSED = [
    [("a", "<i4"), ("b", "S3")],
    [("a", "<f8", (2,))],
    "V4",
    "O",
    numpy.dtypes.StringDType(),
    numpy.dtype({"names": ["a"], "formats": ["u1"], "offsets": [3], "itemsize": 8}),
]
PLAIN = [*NUMBERS, *FLOATS, *TEXTS, *OTHERS, *TIMES]
IN_CSV = {*NUMBERS, *FLOATS, *TEXTS}
SHAPES = [
    (),
    (0,),
    (1,),
    (5,),
    (0, 3),
    (3, 0),
    (1, 1),
    (2, 3),
    (7, 1),
    (1, 7),
    (2, 0, 3),
    (2, 3, 2),
    (1, 1, 1, 1),
    (2, 1, 3, 2),
]
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]


def filled(chance: random.Random, dtype: Any, shape: tuple[int, ...]) -> Array:
    """An array in C order of random elements, the odd ones of its type among them."""
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape))
    if dtype.kind in "SU":
        letters = ["", "a", ",", '"', "\n", "\r", "x\0y", "ab", " ", "'"] + ["ü🎏", "\u202e"] * (dtype.kind == "U")
        flat = numpy.array([chance.choice(letters)[: dtype.itemsize] for _ in range(count)], dtype)
    elif dtype.kind in "fc" and dtype.itemsize > 8 and dtype.char in "gG":
        flat = numpy.array([chance.choice([0.1, -0.0, 1e300, float("nan")]) for _ in range(count)], dtype) / 3
    else:
        flat = numpy.frombuffer(chance.randbytes(count * dtype.itemsize), dtype).copy()
        if dtype.kind == "b":
            flat = flat.view("u1") % 2 == 1
        odd = {"f": [0.0, -0.0, numpy.nan, numpy.inf, -numpy.inf, 1.0, 1e-5], "M": ["NaT"], "m": ["NaT"]}.get(
            dtype.kind, [0, 1]
        )
        for at in range(count):
            if chance.random() < 0.3:
                flat[at] = numpy.array(chance.choice(odd)).astype(dtype)
    return flat.astype(dtype, copy=False).reshape(shape)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda array: array,
    "Fortran": lambda array: numpy.asfortranarray(array) if array.ndim else array,
    "negative": lambda array: array[(..., *(slice(None, None, -1),) * array.ndim)],
    "stepped": lambda array: (
        numpy.repeat(numpy.repeat(array, 3, axis=0), 2, axis=-1)[::3][..., ::2] if array.ndim else array
    ),
    "broadcast": lambda array: numpy.broadcast_to(array, (2, *array.shape)),
    "broadcast-last": lambda array: numpy.broadcast_to(array[..., None], (*array.shape, 3)),
    "transposed": lambda array: array.T,
    "swapped-axes": lambda array: numpy.swapaxes(array, 0, -1)[::-1] if array.ndim else array,
    "unaligned": lambda array: unaligned(array),
    "read-only": lambda array: frozen(array),
    "of-bytes": lambda array: (
        numpy.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) if array.size else array
    ),
    "sub-class": lambda array: array.view(type("Own", (numpy.ndarray,), {})),
}


def unaligned(array: Array) -> Array:
    """The same at an odd address."""
    room = numpy.zeros(array.nbytes + 1, "u1")
    room[1:] = numpy.frombuffer(array.tobytes(), "u1")
    return room[1:].view(array.dtype).reshape(array.shape) if array.size else array


def frozen(array: Array) -> Array:
    view = array[...]
    view.flags.writeable = False
    return view


def arrays(chance: random.Random, dtypes: list[Any], each: int) -> dict[str, Array]:
    made = {}
    for at, dtype in enumerate(dtypes):
        for _ in range(each):
            shape, layout = chance.choice(SHAPES), chance.choice([*LAYOUTS])
            array = LAYOUTS[layout](filled(chance, dtype, shape))
            made[f"{at}-{layout}-{'x'.join(map(str, array.shape))}-{array.dtype.str.strip('<>|')}"] = array
    return made


def of_numpy(array: Array) -> bytes:
    file = io.BytesIO()
    numpy.save(file, numpy.array(array, order="C", subok=False), allow_pickle=False)
    return file.getvalue()


def head(npy: bytes) -> bytes:
    return npy[: npy.index(b"\n") + 1]


def same(one: Array, other: Array) -> bool:
    """Whether arrays are of one dtype and shape and hold the same, bit for bit but for NaN and filling."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.char in "gG":  # 16 bytes, of which 6 say nothing
        signs = (numpy.signbit(part(one)) == numpy.signbit(part(other)) for part in (numpy.real, numpy.imag))
        return numpy.array_equal(one, other, equal_nan=True) and all(map(numpy.all, signs))
    return bool(one.tobytes() == other.tobytes())


def cell(value: Any) -> bytes:
    """A value as a cell of CSV."""
    kind = value.dtype.kind
    if kind == "b":
        return b"true" if value else b"false"
    if kind in "iu":
        return str(int(value)).encode()
    if kind == "f":
        # Half floats are written as the single floats that they equal.
        shortest = float(value) if value.dtype.itemsize == 8 else float(str(numpy.float32(value)))
        return b"NaN" if value != value else repr(shortest).encode()
    text = bytes(value) if kind == "S" else str(value).encode()
    if text and not any(byte in text for byte in b',"\n\r'):
        return text
    return b'"' + text.replace(b'"', b'""') + b'"'


def in_csv(array: Array) -> bytes:
    grid = array.reshape(array.shape if array.ndim == 2 else (-1, 1))
    return b"".join(b",".join(map(cell, row)) + b"\n" for row in grid) if grid.size else b""


@pytest.mark.parametrize("seed", SEEDS)
def test_npy_of_every_dtype_and_layout_is_that_of_numpy(tmp_path: Path, seed: int) -> None:
    made = arrays(random.Random(seed), PLAIN, 2)
    assert all_saved(tmp_path / "out", {f"{name}.npy": array for name, array in made.items()}) == {}
    for name, array in made.items():
        ours, theirs = (tmp_path / f"out/{name}.npy").read_bytes(), of_numpy(array)
        assert head(ours) == head(theirs), name
        assert ours == theirs or array.dtype.char in "gG", name
        assert same(numpy.load(io.BytesIO(ours)), numpy.array(array, order="C", subok=False)), name


@pytest.mark.parametrize("seed", SEEDS)
def test_csv_of_every_dtype_and_layout_has_its_values_or_is_refused(tmp_path: Path, seed: int) -> None:
    made = arrays(random.Random(seed), PLAIN, 2)
    refused = all_saved(tmp_path / "out", {f"{name}.csv": array for name, array in made.items()})
    taken = {numpy.dtype(dtype) for dtype in IN_CSV}
    for name, array in made.items():
        why = refused.get(f"{name}.csv")
        if array.ndim > 2:
            assert why is not None
            assert f"{array.ndim} dimensions" in why
        elif array.dtype not in taken:
            assert why is not None
            assert f'dtype "{array.dtype.str}"' in why
        else:
            assert why is None, (name, why)
            assert (tmp_path / f"out/{name}.csv").read_bytes() == in_csv(array), name


@pytest.mark.parametrize("seed", SEEDS)
def test_another_ending_holds_the_bytes_of_every_layout_in_c_order(tmp_path: Path, seed: int) -> None:
    dtypes = PLAIN
    made = arrays(random.Random(seed), dtypes, 2)
    assert all_saved(tmp_path / "out", made) == {}
    for name, array in made.items():
        assert (tmp_path / "out" / name).read_bytes() == array.tobytes() or array.dtype.char in "gG", name


@pytest.mark.parametrize("dtype", REFUSED, ids=lambda dtype: "".join(filter(str.isalnum, str(dtype))))
def test_a_dtype_that_is_no_plain_data_is_refused_by_its_name(tmp_path: Path, dtype: Any) -> None:
    made: dict[str, Any] = {}
    for shape in SHAPES:
        for layout, lay in LAYOUTS.items():
            array = numpy.zeros(shape, dtype)
            if array.dtype.char == "T" and layout in ("unaligned", "of-bytes"):
                continue
            if array.dtype.hasobject and layout in ("unaligned", "of-bytes"):
                continue
            for ending in ("npy", "csv"):
                made[f"{len(made)}.{ending}"] = lay(array)
    refused = all_saved(tmp_path / "out", made)
    for name, array in made.items():
        said = str(array.dtype) if array.dtype.char == "T" else array.dtype.str
        assert said in refused[name] or "dimensions" in refused[name]


def test_a_text_that_is_no_unicode_is_refused_in_csv_and_kept_in_npy(tmp_path: Path) -> None:
    half = numpy.array(["ok", "\ud800"])
    wide = numpy.frombuffer(b"\xff\xff\xff\x7f", "<U1")
    made = {"half.csv": half, "wide.csv": wide, "half.npy": half, "wide.npy": wide}
    refused = all_saved(tmp_path / "out", made)
    assert refused.keys() == {"half.csv", "wide.csv"}
    assert "0xd800" in refused["half.csv"]
    for name, array in (("half", half), ("wide", wide)):
        assert (tmp_path / f"out/{name}.npy").read_bytes() == of_numpy(array)


def test_arrays_of_up_to_64_dimensions_are_read_by_numpy(tmp_path: Path) -> None:
    made = {f"{size}.npy": numpy.ones((1,) * size, ">i2") for size in range(65)}
    assert all_saved(tmp_path / "out", made) == {}
    for name, array in made.items():
        assert same(numpy.load(tmp_path / "out" / name), array)
