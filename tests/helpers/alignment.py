"""Parties that align small columns in one process."""

import torch

from cutlayer.align import follow, lead, read_ids
from cutlayer.cut import Roster
from cutlayer.message import Batch, Phase
from cutlayer.session import exchange

BATCH = Batch(0, Phase.ALIGN, torch.arange(0))
SALT = b"sixteen bytes ok"


def roster(names):
    return Roster(names[0], tuple(names))


def talks(columns, *, seed=3, processes=1, **options):
    """The first party leads."""
    names = list(columns)
    ids = {name: read_ids(column, **options) for name, column in columns.items()}
    common = {"salt": SALT, "processes": processes}
    talks_by_name = {name: follow(name, ids[name], roster(names), BATCH, **common) for name in names[1:]}
    return {names[0]: lead(ids[names[0]], roster(names), BATCH, seed=seed, **common), **talks_by_name}


def align(columns, record=lambda message: None, **options):
    """The common ids in the common order, as each party reads them off its own column; and the row numbers."""
    rows = exchange(talks(columns, **options), record)
    return {name: [columns[name][row] for row in rows[name].tolist()] for name in columns}, rows
