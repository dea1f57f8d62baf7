"""Column noise: answer the two-valued columns at random, once per record, before anything is computed on them."""

from math import log
from typing import ClassVar

import torch
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Course, Defence, Role, Setting, changes
from cutlayer.errors import ConfigError
from cutlayer.privacy import Guarded, Observer, Privacy


class ColumnNoise(Defence):
    """Flip each value of a feature party's two-valued columns with chance `flip` (randomised response).

    Linear messages give away every 0/1 column that they are made of, and what is done to them afterwards
    only makes it harder to find: noise on messages averages out over their width, and a lower rank keeps
    nearly all of a column. So the column itself must not be in them. Answers are drawn once per record,
    for training and prediction alike, and the model is trained on them: whatever is sent depends on the
    true value through the answer alone. Columns with two values are found in the party's own table;
    the others stay as they are. `flip=0.5` is as good as leaving these columns out.

    Protects: features; each feature party applies it.
    Guarantee: for each value of a two-valued column, epsilon-local differential privacy with
    epsilon = ln((1 - flip) / flip), of all that is sent, trained or predicted, against any attack and
    however many epochs it watches: about a fair bit that nothing else tells of, no guess is right more often
    than 1 - flip. How columns were scaled is taken as given. Values add up: m such columns have m epsilon together,
    a change of level in a one-hot group 2 epsilon, and every further run that draws again adds as much.
    Does not hide: what other columns tell about a bit, which columns have two values, how often each
    value occurs, or any column with more than two.
    Specification: binary-reconstruction, section 4; ours.
    Paper: Warner, Randomized Response (JASA 1965), against Ye et al. (arXiv:2210.06771).
    """

    strengths: ClassVar[tuple[str, ...]] = ("flip=0.1", "flip=0.25", "flip=0.5")

    def __init__(self, *, flip: float = 0.25) -> None:
        if not 0 < flip <= 0.5:
            raise ConfigError(f"Expected flip={flip} to be above 0 and at most 0.5, where answers tell nothing.")
        self.flip = flip

    def features(self, values: Tensor | SparseRows, setting: Setting) -> Tensor | SparseRows:
        """Answer at random in the place of two-valued columns."""
        if setting.role is not Role.FEATURE_PARTY:
            return values
        if isinstance(values, SparseRows):
            raise ConfigError(f"Expected dense columns for column-noise, got sparse ones at {setting.party}.")
        low, high = values.amin(dim=0), values.amax(dim=0)
        two_valued = ((values == low) | (values == high)).all(dim=0) & (low < high)
        draws = setting.rng.uniform(values.shape)
        other = torch.where(values == low, high, low)
        return torch.where(two_valued & (draws < self.flip).to(values.device), other, values)

    def privacy(self, course: Course) -> Privacy:
        """Answers are drawn once per record, so epochs add nothing."""
        at = next((place for place, defence in enumerate(course.defences) if defence is self), 0)
        before = [defence.describe() for defence in changes(course.defences[:at], "features")]
        reason = f"{before[0]} sees the columns before they are answered" if before else ""
        epsilon = None if reason else log((1 - self.flip) / self.flip)
        return Privacy("column-noise", Guarded.VALUE, Observer.OTHERS, epsilon, reason=reason)
