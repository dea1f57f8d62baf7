"""Every object reachable from another, and whether a secret is among them."""

import gc
import types

import numpy as np
import torch


def reachable(root):
    """Every object that attributes, items, closures and bound methods lead to. Code and modules are not data."""
    skipped = (types.ModuleType, type, types.CodeType, types.BuiltinFunctionType)
    seen, stack, kept = set(), [root], []
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, skipped):
            continue
        seen.add(id(thing))
        kept.append(thing)
        if isinstance(thing, types.FunctionType):  # not its globals: every module is reachable from those
            stack += [cell.cell_contents for cell in thing.__closure__ or ()]
            stack += list(thing.__defaults__ or ())
        else:
            stack += gc.get_referents(thing)
    return kept


def arrays(root):
    """All tensors and arrays reachable, as tensors."""
    tensors = []
    for thing in reachable(root):
        if isinstance(thing, torch.Tensor):
            tensors.append(thing.detach())
        elif isinstance(thing, np.ndarray) and thing.dtype.kind in "fiu":
            tensors.append(torch.from_numpy(np.array(thing)))
    return tensors


def shows(view, secret):
    """Whether some reachable tensor has the secret's content, or shares its memory."""
    return any(
        a.untyped_storage().data_ptr() == secret.untyped_storage().data_ptr()
        or (a.shape == secret.shape and a.dtype == secret.dtype and torch.equal(a, secret))
        for a in arrays(view)
    )
