"""The target codes that every party knows, where a run's defences draw them from a seed that all know."""

from torch import Tensor

from cutlayer.defences.hash import Hash
from cutlayer.view import Manifest


def shared_codes(manifest: Manifest) -> Tensor | None:
    """One code per class, or None where no defence shares any."""
    hashing = manifest.uses(Hash)
    return None if hashing is None else hashing.shared_codes(manifest.classes, manifest.seed)


def nearest_code(received: Tensor, codes: Tensor) -> Tensor:
    """The number of the nearest code, the first among equals, for each row."""
    return (received.flatten(1) @ codes.T).argmax(dim=1)  # Hamming distance is (d - <h, o>) / 2
