"""Bottoms and tops: plain torch modules, one file each. Any other nn.Module does as well.

A class is exported because its file lies here, and so is a function that makes a bottom or a top by name (`named`).
"""

from types import ModuleType

from torch import nn

from cutlayer.exports import lazy
from cutlayer.spec import find


def _found(package: ModuleType) -> dict[str, object]:
    from cutlayer.models import named

    makers = (*named.bottoms().values(), *named.tops().values())
    return {model.__name__: model for model in (*find(package, nn.Module).values(), *makers)}


__getattr__, __dir__ = lazy(__name__, {}, _found)
