"""Certificate: what must hold, beside the rounding itself, before a search may call its answer complete.

Rounding moved every two-valued column a little, so the searches allow for a distance: from 0 and 1, and of a
relation from being exact. Each rule here bounds what rounding can do by figures of the span at hand, and gives the
reason in words where the bound is larger than what the search allows for, else nothing.

Specification: binary-search, section 3.
"""

import numpy as np

from cutlayer.attacks.tools.binary.enumeration import TOLERANCE, stretch
from cutlayer.attacks.tools.binary.relations import Relations
from cutlayer.attacks.tools.binary.rounding import Rounding
from cutlayer.attacks.tools.binary.span import Floats, Span

APART = 10  # times the bound on null ones: the smallest eigenvalue that must not be null
RESIDUAL = 5e-7  # of its variance, what a column may lack in the space that relations confine it to; half the limit


def blurred(span: Span, rounding: Rounding, leak: tuple[float, float] = (0.0, 0.0)) -> str:
    """Whether a 0/1 column can be further from its bits, when all bits of the pivot rows are tried, than is allowed."""
    lost, moved = leak
    off = (rounding.off + moved) * stretch(span)
    if off > TOLERANCE:
        return f"rounding may move zeros and ones by {off:.1g}, which is more than is allowed for"
    if lost**2 > RESIDUAL:
        return f"rounding may hide {lost**2:.1g} of a column from the relations"
    return ""


def unclear(known: Relations, null: float) -> str:
    """Whether a relation that rounding broke may be among those taken for none."""
    return "" if known.least > APART * null else "a further relation is too near to tell from rounding"


def leak(points: Floats, known: Relations, rounding: Rounding) -> tuple[float, float]:
    """What of a two-valued direction may lie outside those of the relations, and how far that moves a value, at most.

    A column y of skewness g misses y^2 - g y - 1 = 0 by the root of g^2 + 4 times what rounding moved it by. Over the
    smallest eigenvalue that is not null, that is how much of its relation is lost; and g is no larger
    than the row farthest out.
    """
    farthest = float((points**2).sum(axis=1).max() ** 0.5)
    lost = (farthest**2 + 4) ** 0.5 * rounding.turn / max(known.least, np.finfo(float).tiny) ** 0.5
    return lost, lost * farthest / 2
