"""FER-2013: grey faces of 48 by 48 pixels, seven expressions. A subset of 9,671 pictures."""

import json

import torch
from torch import Tensor

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_images, given_parts
from cutlayer.data.mosaic import cut_tiles
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError, DataError

FER2013 = About(
    "fer2013", 9671, 2304, 7, "faces, seven expressions, 48x48 pixels; a subset", "HashVFL",
    "ICML 2013 challenge and Kaggle rules",
)  # fmt: skip
_CLASSES = ("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral")
_HINT = "The subset has no public address: the full set is on Kaggle (challenges in representation learning)."
_NOTE = "a subset of FER-2013 (7,636 training and 2,035 test pictures of 28,709 and 3,589), JPEG copies"


def fer2013(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    channels: int = 1,
) -> Task:
    """Faces as (n, 1, 48, w) in [0, 1], cut into upright strips; its own training and test parts.

    channels=3 repeats the grey channel, as HashVFL does to feed a colour network.
    """
    call = Call.of(locals())
    if channels not in (1, 3):
        raise ConfigError(f"Expected channels={channels} to be 1 or 3.")
    (train, train_labels), (test, test_labels) = _part("train_7636"), _part("test_2035")
    images = torch.cat([train, test])
    FER2013.check(len(images), images[0].numel())
    return assemble_images(
        FER2013,
        call,
        images.expand(-1, channels, -1, -1),
        torch.cat([train_labels, test_labels]),
        _CLASSES,
        given_parts(len(train), len(test)),
        notes=(_NOTE,),
    )


def parse(picture: bytes, labels: bytes) -> tuple[Tensor, Tensor]:
    """Read a grey mosaic and the JSON file that holds the `label` of each tile."""
    try:
        codes = [int(code) for code in json.loads(labels)["label"]]
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"Expected JSON with a list 'label' beside the FER-2013 pictures: {error}.") from error
    return cut_tiles(picture, 48, len(codes)), torch.tensor(codes)


def _part(name: str) -> tuple[Tensor, Tensor]:
    folder = "fer2013_subset"
    picture = read(File(f"{folder}/{name}.png", hint=_HINT))
    return parse(picture, read(File(f"{folder}/{name}_labels.json", hint=_HINT)))
