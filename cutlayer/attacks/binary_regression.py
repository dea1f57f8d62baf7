"""Binary regression: the 0/1 vector that noisy linear messages come closest to, by leverage-score sampling."""

from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Generator

from cutlayer._validate import at_least, one_of
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.binary.regression import MOST_BITS, Basis, Select, basis_for, close_vectors
from cutlayer.attacks.tools.binary.visible import Visible, columns, messages, not_own, with_own
from cutlayer.defence import Role
from cutlayer.errors import DataError, Inapplicable
from cutlayer.view import View


class BinaryRegression(Attack):
    """Try 0 and 1 for the bits of a few rows, extend each try to all rows, keep what is nearest to the span.

    Noise breaks equations but not regression: with one row more than columns, drawn by leverage, least squares still
    gives weights that round to the column. `basis="columns"` takes as many columns of the messages as the victim has
    (the paper); "svd" takes their strongest directions instead, in which noise averages out: a stronger attack.
    `select="normalised"` divides the distance by the rarer of ones and zeros; "literal" is the pseudo-code's, which
    prefers a single one to any real column under noise. `repeats`: how many draws of rows are tried. `keep`: how many
    distinct vectors to return, best first, for where a defence has planted the best. `rank` is the number of columns
    if the victim's is not to be taken. `visible`: see `cutlayer.attacks.tools.binary.visible.messages`.

    Sees: the victim's embeddings of all rows, as predicted after training.
    Needs: a linear bottom; the number of the victim's columns.
    Cost: 0.7 s at 6 columns, 5 s at 10, 22 s at 15 (results/binary); it doubles with each column.
    Specification: binary-reconstruction, section 3.
    Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical
    Federated Learning (arXiv:2210.06771), Algorithm 2.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        basis: Basis = "columns",
        select: Select = "normalised",
        repeats: int = 20,
        keep: int = 1,
        rank: int | None = None,
        visible: Visible = "each",
    ) -> None:
        one_of("basis", basis, get_args(Basis))
        one_of("select", select, get_args(Select))
        at_least("repeats", repeats, 1)
        at_least("keep", keep, 1)
        at_least("rank", 1 if rank is None else rank, 1)
        one_of("visible", visible, get_args(Visible))
        self.basis = basis
        self.select = select
        self.repeats = repeats
        self.keep = keep
        self.rank = rank
        self.visible = visible

    @property
    def asks(self) -> Asks:
        """The victim's embeddings of the training rows under the final weights."""
        return Asks(frozen_train=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Choose a basis, search, leave out what is known."""
        rank = self.rank or columns(view, self.visible)
        if rank + 1 > MOST_BITS:
            raise Inapplicable(f"2^{rank + 1} candidates; use binary-search")
        rows, matrix, own = messages(view, self.visible)
        draws = np.random.default_rng(int(torch.randint(2**62, (1,), generator=rng)))
        try:
            basis = basis_for(with_own(matrix, own, columns(view, self.visible)), rank, self.basis)
            close = close_vectors(basis, rng=draws, select=self.select, repeats=self.repeats, keep=self.keep)
        except DataError as error:
            raise Inapplicable(str(error)) from error
        return Guess(rows, torch.from_numpy(not_own(close.vectors, own)), Form.COLUMNS)
