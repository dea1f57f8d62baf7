"""Attacks, one file each. A class is exported because its file lies here: nothing is registered."""

from cutlayer.attack import Attack
from cutlayer.exports import lazy
from cutlayer.spec import find

__getattr__, __dir__ = lazy(
    __name__,
    {"tools.binary.recover": "Recovered, recover_binary"},
    found=lambda package: {plug_in.__name__: plug_in for plug_in in find(package, Attack).values()},
)
