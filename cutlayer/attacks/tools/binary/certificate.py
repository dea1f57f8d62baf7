"""Certificate: what must hold, beside the rounding itself, before a search may call its answer complete.

Rounding moved every two-valued column a little, so the searches allow for a distance: from 0 and 1, and of a
relation from being exact. Each rule here bounds what rounding can do by figures of the span at hand, and gives the
reason in words where the bound is larger than what the search allows for, else nothing.

Specification: binary-search, section 3.
"""

import numpy as np

from cutlayer.attacks.tools.binary.catalogue import NEAR
from cutlayer.attacks.tools.binary.enumeration import TOLERANCE, stretch
from cutlayer.attacks.tools.binary.relations import Relations
from cutlayer.attacks.tools.binary.rounding import Rounding
from cutlayer.attacks.tools.binary.span import Floats, Span

APART = 10  # times the bound on null ones: the smallest eigenvalue that must not be null
WIDEST = 0.1  # distance from 0 and 1 that is looked at: what is found there is tested exactly


def allowance(span: Span, rounding: Rounding, leak: float = 0.0) -> tuple[float, str]:
    """How far from 0 and 1 to look when all bits of the pivot rows are tried, and the doubt if that is too far."""
    if rounding.doubt:
        return TOLERANCE, rounding.doubt
    off = (rounding.off + leak) * stretch(span)
    if off > WIDEST or rounding.off > NEAR:
        return WIDEST, f"rounding may move zeros and ones by {off:.1g}, which is more than is allowed for"
    return max(off, TOLERANCE), ""


def unclear(known: Relations, null: float) -> str:
    """Whether a relation that rounding broke may be among those taken for none."""
    return "" if known.least > APART * null else "a further relation is too near to tell from rounding"


def leak(points: Floats, known: Relations, rounding: Rounding) -> float:
    """How far the values of a 0/1 column may move, at most, as its direction is not quite among those of the relations.

    A column y of skewness g misses y^2 - g y - 1 = 0 by the root of g^2 + 4 times what rounding moved it by. Over the
    smallest eigenvalue that is not null, that is how much of its relation is lost; and g is no larger
    than the row farthest out.
    """
    farthest = float((points**2).sum(axis=1).max() ** 0.5)
    lost = (farthest**2 + 4) ** 0.5 * rounding.turn / max(known.least, np.finfo(float).tiny) ** 0.5
    return lost * farthest / 2
