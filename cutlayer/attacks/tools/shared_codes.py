"""The target codes that every party knows, where a run's defences draw them from a seed that all know."""

from torch import Tensor

from cutlayer.defences.hash import Hash
from cutlayer.view import Manifest


def shared_codes(manifest: Manifest) -> Tensor | None:
    """One code per class, or None where no defence shares any."""
    hashing = manifest.uses(Hash)
    return None if hashing is None else hashing.shared_codes(manifest.classes, manifest.seed)
