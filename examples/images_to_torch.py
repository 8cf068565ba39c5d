"""Feed images to a PyTorch model, each once per epoch, decoded in two worker processes.

python images_to_torch.py IMAGES          needs torch, numpy and pillow
"""

import io
import sys

import numpy as np
import torch
import torch.utils.data
from PIL import Image

import shoal
import shoal.torch

SIZE = 64  # pixels


def decoded(image: shoal.Object) -> tuple[str, torch.Tensor]:
    """Returns the name of an image, and its pixels in the shape that models expect."""
    with Image.open(io.BytesIO(image.data)) as opened:
        pixels = np.array(opened.convert("RGB").resize((SIZE, SIZE)))
    return image.name, torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def loader(images: str) -> torch.utils.data.DataLoader[tuple[list[str], torch.Tensor]]:
    """Returns batches of 32 images in a different order in each epoch."""
    dataset = shoal.torch.ObjectDataset(f"{images}/**/*.png", decoded, shuffle=1000)
    return torch.utils.data.DataLoader(dataset, batch_size=32, num_workers=2)


if __name__ == "__main__":
    total, mean = 0, torch.zeros(3)
    for names, pixels in loader(sys.argv[1]):
        total += len(names)
        mean += pixels.mean(dim=(2, 3)).sum(dim=0)
    colour = [round(value, 3) for value in (mean / total).tolist()]
    print(f"{total:,} images, mean colour {colour}")
