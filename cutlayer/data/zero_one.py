"""Tables as the binary-reconstruction paper prepares them: every column in [0, 1], two-valued ones exact.

Categories become integer codes, not one-hot columns, which would add two-valued columns; and
nothing is standardised, which would move 0 and 1 out of the span that the attack searches.
"""

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, first_to_others, random_parts
from cutlayer.data.prepare import Raw, min_max
from cutlayer.data.task import Task

_NOTE = "categories as alphabetical codes; every column min-max scaled to [0, 1] over all rows"


def zero_one(about: About, call: Call, raw: Raw, first: int) -> Task:
    """Give the first columns to the other parties and the rest to party 1; 90/10 random split."""
    about.check(*raw.values.shape)
    return assemble_table(
        about,
        call,
        min_max(raw.values),
        raw.names,
        raw.labels,
        raw.classes,
        first_to_others(first, len(raw.names), call.parties),
        random_parts(about, call, raw.labels, test=0.1, stratify=False),
        (_NOTE,),
    )
