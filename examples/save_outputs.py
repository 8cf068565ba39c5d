"""Save what a model makes, a file for each input, while the model keeps running.

python save_outputs.py PROMPTS.txt OUTPUTS

The generator below is all that runs in Python's thread: other threads encode and write files.
The same call again resumes: files that are saved are not written again. The generator starts
over, so the same inputs must make the same outputs. If that takes long, use `shoal.generate`,
which computes only what is missing.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import shoal

BATCH = 64  # prompts in one call of the model


def embed(prompts: list[str]) -> np.ndarray:
    """Stands for a model: returns a vector of 256 numbers for each prompt."""
    counts = [
        np.bincount(np.frombuffer(prompt.encode(), np.uint8), minlength=256)
        for prompt in prompts
    ]
    return np.stack(counts).astype(np.float32)


def outputs(prompts: list[str]) -> Iterator[tuple[str, object]]:
    """Yields a name and data for each file: an array, and what belongs to it as JSON."""
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        for number, (prompt, vector) in enumerate(zip(batch, embed(batch), strict=True), start):
            yield f"{number // 1000:04}/{number:07}.npy", vector
            yield (
                f"{number // 1000:04}/{number:07}.json",
                {"prompt": prompt, "norm": float(np.linalg.norm(vector))},
            )


if __name__ == "__main__":
    path, destination = sys.argv[1:]
    lines = Path(path).read_text().splitlines()
    report = shoal.save(outputs(lines), destination, source_id=f"{path}: embed, version 1")
    print(f"{report.written:,} files, {report.bytes:,} bytes")
