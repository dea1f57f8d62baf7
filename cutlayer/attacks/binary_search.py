"""Binary search: read a party's two-valued columns out of its linear messages, in polynomial time."""

from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Generator

from cutlayer._validate import one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.binary.recover import Method, recover_binary
from cutlayer.attacks.tools.binary.visible import Visible, columns, messages, not_own, with_own
from cutlayer.defence import Role
from cutlayer.errors import DataError, Inapplicable
from cutlayer.view import View


class BinarySearch(Attack):
    """Find the two-valued columns in the span of the messages without trying all bits.

    A two-valued column obeys a quadratic equation in every row. These equations are linear in
    unknowns that number only the square of the rank, so with enough rows they are solved, and little is left to
    search; with fewer rows they still say where to start a search. Hundreds of columns
    are within reach, where trying all bits ends near thirty; noise is allowed for.

    `visible`: see `cutlayer.attacks.tools.binary.visible.messages`. `seconds` and `method`: see
    `cutlayer.attacks.tools.binary.recover.recover_binary`.

    Sees: the victim's embeddings of all rows, as predicted after training.
    Needs: a linear bottom, at least as wide as the victim has columns.
    Cost: 5 s of processor time for 10,000 rows of 80 columns, about 3 minutes for 200 (results/binary/search.csv).
    Specification: binary-search.
    Paper: ours, after Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in
    Vertical Federated Learning (arXiv:2210.06771), whose Algorithm 1 is exponential.
    """

    settings: ClassVar[tuple[str, ...]] = ("seconds=10", "seconds=5,visible=all")

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(self, *, visible: Visible = "each", seconds: float = 60, method: Method = "auto") -> None:
        one_of("visible", visible, get_args(Visible))
        one_of("method", method, get_args(Method))
        positive("seconds", seconds)
        self.visible = visible
        self.seconds = seconds
        self.method = method

    @property
    def asks(self) -> Asks:
        """The victim's embeddings of the training rows under the final weights."""
        return Asks(frozen_train=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Search, and leave out what follows from the attacker's own columns."""
        rows, matrix, own = messages(view, self.visible)
        seed = int(torch.randint(1 << 31, (1,), generator=rng))
        try:
            behind = None if own is None else columns(view, self.visible)
            recovered = recover_binary(with_own(matrix, own, behind), self.method, self.seconds, seed)
        except DataError as error:
            raise Inapplicable(str(error)) from error
        bits = np.ascontiguousarray(recovered.columns.T)
        return Guess(rows, torch.from_numpy(not_own(bits, own)), Form.COLUMNS)
