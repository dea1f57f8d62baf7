"""What each party sees under the blind layer, against the same made up from its ideal output: nobody tells them apart.

The ideal output is nothing for a feature party, and the sums for the label party. The simulator gets no more than that,
and sizes. Distinguishers that find nothing must find something on a weak variant, or they could not find anything.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from cutlayer.crypto import Bfv, Residues
from cutlayer.cuts.parts.blind_ends import OWN
from cutlayer.cuts.parts.halves import COLUMN, RING, decode_sum
from cutlayer.cuts.parts.payload import bytes_in
from cutlayer.message import Kind, Message
from cutlayer.plan import assemble
from cutlayer.session import Session
from tests.helpers.blind import COLUMNS, ROWS, WIDTH, make_task, plan_of

EPOCHS, BATCH = 16, 8
LEAST = 1e-6  # a p-value below this is a find


@dataclass
class Seen:
    """A run of three parties, p0 with labels and columns: what the label party decrypted, step by step."""

    session: Session
    messages: list[Message]
    rows: np.ndarray  # steps x batch
    parts: dict[str, Residues]  # steps x batch x width
    shares: dict[str, Residues]  # of W's steps: steps x columns x width

    def half(self, party: str, name: str) -> Residues:
        return self.session.parties[party].cut._memory.find(name)

    @property
    def own(self) -> Residues:
        """The label party's own share of each row's sum."""
        return self.session.label_party.cut._own_block.shares.of(self.rows).astype(np.int64)

    @property
    def sums(self) -> Residues:
        """The ideal output."""
        return RING.sum([self.parts["p1"], self.parts["p2"], self.own])


@pytest.fixture(scope="module")
def seen() -> Seen:
    task, messages = make_task(3), list[Message]()
    session = assemble(task, plan_of(), messages.append)
    for epoch in range(EPOCHS):
        session.train_epoch(epoch, task.train)
    parts, shares = {}, {}
    for name in ("p1", "p2"):
        crossed = [bytes_in(m) for m in messages if (m.sender, m.receiver, m.kind) == (name, "p0", Kind.CIPHER)]
        crossed = crossed[-2 * EPOCHS * ROWS // BATCH :]  # before them, p1's half of p0's weights
        end = session.label_party.cut._ends[name]
        parts[name] = np.stack([end.open(data, BATCH) for data in crossed[::2]])
        public, shape = end.secret.public, (BATCH, WIDTH)
        read = [public.read_result(data, COLUMNS, shape, for_rows=COLUMNS) for data in crossed[1::2]]
        shares[name] = np.stack([end.secret.decrypt(result) for result in read])
    rows = np.stack([m.batch.rows.numpy() for m in messages if m.kind is Kind.SUM])
    return Seen(session, messages, rows, parts, shares)


def as_bytes(residues: Residues) -> np.ndarray:
    """A row of bytes for each row of residues."""
    flat = np.ascontiguousarray(residues.reshape(-1, residues.shape[-1])).astype("<i8")
    return flat.view(np.uint8).reshape(*flat.shape, 8)[..., : RING.bytes_each].reshape(len(flat), -1)


def least_p(residues: Residues) -> float:
    """The smallest p-value over a residue's half bytes, each tested for being uniform, times how many there are."""
    rows = as_bytes(residues).reshape(-1, RING.bytes_each)
    halves = np.hstack([rows >> 4, rows & 15])
    return halves.shape[1] * min(chisquare(np.bincount(half, minlength=16)).pvalue for half in halves.T)


def told_apart(real: np.ndarray, made: np.ndarray) -> bool:
    """Whether a learner that saw three quarters of the rows tells the others apart, by six standard errors."""
    rows = np.concatenate([real, made]).astype(np.float64)
    rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-9)
    which = np.repeat([0, 1], [len(real), len(made)])
    learners = (LogisticRegression(max_iter=300), KNeighborsClassifier(5))
    best = max(cross_val_score(learner, rows, which, cv=4).mean() for learner in learners)
    return bool(best > 0.5 + 6 * 0.5 / len(rows) ** 0.5)


def found(real: Residues, made: Residues) -> bool:
    """Whether any distinguisher says which is which, of residues that should be uniform."""
    return least_p(real) < LEAST or told_apart(as_bytes(real), as_bytes(made))


def made_up_parts(sums: Residues) -> tuple[Residues, Residues]:
    """The simulator of the label party, from the sums alone: one part uniform, the other what is left."""
    first = RING.uniform(sums.shape)
    return first, RING.subtract(sums, first)


def test_what_is_opened_is_the_ideal_output(seen):
    kept = torch.stack([m.payload for m in seen.messages if m.kind is Kind.SUM])
    assert torch.equal(decode_sum(seen.sums).float(), kept)
    assert found(seen.sums, RING.uniform(seen.sums.shape))  # sums say something, as they should


def test_what_the_label_party_decrypts_can_be_made_up_from_the_sums(seen):
    """Part by part, and the parts of a row together with its sum: it sees all three."""
    real, sums = [seen.parts[name] for name in ("p1", "p2")], seen.sums
    made = made_up_parts(RING.subtract(sums, seen.own))
    assert not any(found(*pair) for pair in zip(real, made, strict=True))
    assert not told_apart(*(np.hstack([as_bytes(each) for each in (*view, sums)]) for view in (real, made)))


def test_a_row_in_two_epochs_shows_no_more_and_with_the_same_mask_it_would(seen):
    """Parts of one row, epoch after epoch, differ by uniform numbers. If masks stayed they would differ by X dW."""
    order = np.argsort(seen.rows.reshape(EPOCHS, ROWS), axis=1)[..., None]

    def differences(residues):
        turned = np.take_along_axis(residues.reshape(EPOCHS, ROWS, WIDTH), order, axis=1)
        return RING.subtract(turned[1:], turned[:-1])

    parts = differences(seen.parts["p2"])
    assert not found(parts, RING.uniform(parts.shape))
    stays = RING.uniform((ROWS, WIDTH))
    weak = differences(RING.add(seen.sums, stays[seen.rows]))
    assert found(weak, RING.uniform(weak.shape))


@pytest.mark.parametrize("name", ["p1", "p2"])
def test_the_label_partys_shares_of_steps_can_be_made_up_from_nothing(seen, name):
    shares = seen.shares[name]
    assert not found(shares, RING.uniform(shares.shape))
    small, made = RING.uniform(shares.shape) >> 16, RING.uniform(shares.shape)  # a phi of 40 bits, not 56
    assert least_p(small) < LEAST and told_apart(as_bytes(small), as_bytes(made))


@pytest.mark.parametrize("party", ["p0", "p1"])
def test_a_half_alone_is_uniform_and_linear_algebra_finds_no_weights_in_it(seen, party):
    """Least squares of all weights on one half, and of all steps on one share; a phi that is too small shows."""
    half = seen.half(party, "p1")
    weights = RING.centred(RING.add(seen.half("p0", "p1"), seen.half("p1", "p1")))
    assert np.abs(weights).max() < 2**40 < np.abs(RING.centred(half)).max()
    columns = RING.centred(seen.session.parties["p1"].cut.entering(_features(seen)).mul(2**COLUMN).long().numpy())
    steps = np.stack([columns[rows].T @ delta for rows, delta in zip(seen.rows, _deltas(seen), strict=True)])
    share = seen.shares["p1"] if party == "p0" else RING.subtract(RING.wrap(steps), seen.shares["p1"])

    def correlation(masked):
        return abs(np.corrcoef(RING.centred(masked).ravel().astype(np.float64), steps.ravel())[0, 1])

    bound = 6 / steps.size**0.5
    assert correlation(share) < bound
    small = RING.centred(RING.uniform(steps.shape)) >> (RING.bits - int(np.abs(steps).max()).bit_length())
    assert correlation(RING.wrap(steps + small)) > bound


def test_what_the_first_feature_party_decrypts_can_be_made_up_from_nothing(seen):
    """Its shares of the label party's products; without masks they would be X V, which is small."""
    shares = seen.session.parties["p1"].cut._own_key.shares.of(np.arange(ROWS)).astype(np.int64)
    made = RING.uniform(shares.shape)
    assert not found(shares, made)
    columns = RING.centred(seen.session.label_party.cut._own_block.kept.of(np.arange(ROWS)))
    bare = RING.matmul(columns, seen.half("p1", OWN))
    assert np.array_equal(RING.add(shares, seen.session.label_party.cut._own_block.shares.of(np.arange(ROWS))), bare)
    assert found(bare, made)


def test_a_feature_partys_ciphertexts_look_like_those_of_zeros(seen):
    """[V] and [lr dZ] as they crossed, against encryptions of zero under a key of the simulator's own."""
    crossed = [bytes_in(m) for m in seen.messages if (m.sender, m.receiver, m.kind) == ("p0", "p2", Kind.CIPHER)]
    secret = Bfv(RING).generate()
    shapes = ((COLUMNS, BATCH), (BATCH, COLUMNS))  # rows of the operand, and rows that it meets
    for real, (inner, meets) in zip(crossed[-2:], shapes, strict=True):
        zeros = [secret.encrypt(np.zeros((inner, WIDTH), np.int64), for_rows=meets).to_bytes() for _ in range(2)]
        assert len(real) == len(zeros[0])
        start = next(i for i, pair in enumerate(zip(*zeros, strict=True)) if i > 64 and pair[0] != pair[1])
        real, made = (np.frombuffer(data, np.uint8)[start:] for data in (real, zeros[0]))
        assert bytes_p(real, made) > LEAST
    open_step = as_bytes(RING.wrap(np.stack(_deltas(seen)))).ravel()  # not encrypted at all
    assert bytes_p(open_step, made) < LEAST


def bytes_p(left: np.ndarray, right: np.ndarray) -> float:
    """Whether two texts have the same bytes, as often."""
    return float(chi2_contingency([np.bincount(text, minlength=256) + 1 for text in (left, right)]).pvalue)


def test_the_noise_of_a_result_is_that_of_a_made_up_one():
    """The key's owner sees a result's noise. The simulator multiplies by zeros and adds what is to be opened."""
    secret, budgets = Bfv(RING).generate(), {}
    rows = RING.encode(100 * torch.randn(64, 8, generator=torch.Generator().manual_seed(0)), COLUMN)
    operand = secret.encrypt(RING.uniform((8, WIDTH)), for_rows=64)
    for sanitise in (True, False):
        for plain in (rows, np.zeros_like(rows)):
            result = secret.public.masked_product(plain, operand, RING.uniform((64, WIDTH)), sanitise=sanitise)
            budgets.setdefault(sanitise, []).append(secret.noise_budget(result))
    assert budgets[True][0] == budgets[True][1]
    assert budgets[False][0] < budgets[False][1]  # the weak variant


def _features(seen: Seen) -> torch.Tensor:
    return make_task(3).features["p1"].values


def _deltas(seen: Seen) -> list[np.ndarray]:
    """lr dZ of every step, as the label party encrypted it."""
    crossed = [bytes_in(m) for m in seen.messages if (m.sender, m.receiver, m.kind) == ("p0", "p2", Kind.CIPHER)]
    secret = seen.session.label_party.cut._ends["p2"].secret
    operands = [secret.public.read_operand(data, (BATCH, WIDTH), for_rows=COLUMNS) for data in crossed[1::2]]
    return [RING.centred(secret.decrypt(operand)) for operand in operands]
