"""Tasks: public datasets by name, and a user's own table.

Every dataset is a function of keyword arguments with a shared meaning:

parties      how many parties hold columns; they are called party1, party2 and so on
label_party  None: party1 holds the labels beside its columns; a new name: a party with labels only
seed         of every random choice the loader makes (split, dealing out, balancing, limit)
limit        keep so many training rows, and test rows in proportion, drawn class by class

A dataset is exported because its file lies in `sets/`: nothing is registered.
"""

from types import ModuleType

from cutlayer.exports import lazy


def _found(package: ModuleType) -> dict[str, object]:
    from cutlayer.data.catalogue import loaders

    return {loader.__name__: loader for loader in loaders().values()}


__getattr__, __dir__ = lazy(
    __name__,
    {
        "about": "About",
        "catalogue": "describe, load, names",
        "tables.table": "table",
        "task": "Column, ColumnKind, Features, Goal, Task",
    },
    _found,
)
