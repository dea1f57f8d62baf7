"""Private set intersection as two talks: `lead` for the label party, `follow` for every feature party.

With k_i a key of feature party i, drawn for this alignment, and F_i(x) = k_i * H(x) on Curve25519 (curve.py):

1. Leader to each i: a * H(x) for its ids x in a random order, `a` its blind, the same for all parties.
2. Party i to leader: k_i times each of these points, in their order; the leader takes the blind off and has F_i(x).
3. Party i to leader, of its own ids y. One feature party: the tags hash(F(y)), sorted; the leader looks for hash(F(x)).
   Several: a table (okvs.py) that gives F_i(y) the value pad(F_i(y)) XOR share_i(y), shares as in shares.py. The leader
   decodes at its own x, takes off the pads it can compute and XORs over the parties: zero exactly if all hold x.
4. Leader to each i: the tags hash(F_i(x)) of the common ids, in the common order, by which i finds its rows.

The common order sorts a keyed hash of the ids, keyed by the run's seed: those who hold the common ids can compute it
themselves, so it says nothing more, and the same ids and seed give the same order in every run.

**Who learns what**, when all follow the protocol and the leader colludes with no feature party:

- The leader: the common ids and the size of each set. For an x outside of a party's set the decoded value is uniform,
  and for an x that some parties hold but not all, their values are uniform and independent, so neither which parties
  hold it nor the size of any partial intersection shows.
- A feature party, or several together: the common ids and the leader's set size. The points a * H(x) look random
  to anyone without `a` (decisional Diffie-Hellman, H a random oracle).
- F_i at ids that the leader did not ask for is pseudo-random to it (one-more Diffie-Hellman, as in 2HashDH), so it
  cannot try other ids on tags or tables, then or later.

Not covered: a party that departs from the protocol, such as a leader that asks for ids it does not hold; a leader
that shares what it sees with a feature party (with one of two, it learns which of its ids the other holds).

**Chance of a wrong match.** Two parties: n_x n_y 2^-128, as tags have 128 bits; at 10^7 ids a side, 2^(46.6 - 128) or
less than 2^-81 (11 bytes would be enough for 2^-40). Several: n_x 2^-128, at 10^7 ids less than 2^-104.

After Jarecki and Liu (2HashDH) and Kolesnikov et al. (CCS 2017: programmable functions and shares of zero).
"""

import os
from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.align import okvs
from cutlayer.align.curve import Bytes, Curve, draw_blind, draw_key
from cutlayer.align.ids import Ids
from cutlayer.align.payload import (
    MOST_IDS,
    as_rows,
    as_tags,
    bytes_message,
    digests,
    find,
    keys_in,
    points_in,
    sorted_tags_in,
    table_in,
    tags_in,
)
from cutlayer.align.shares import CONTEXT, VALUE, shares
from cutlayer.crypto.key_pair import KeyPair
from cutlayer.cut import Roster, collect
from cutlayer.errors import ConfigError, DataError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Talk
from cutlayer.rng import derive

TAG, PAD = b"tag", b"pad"


def lead(
    ids: Ids, roster: Roster, batch: Batch, *, salt: bytes, seed: int, processes: int | None = None
) -> Talk[Tensor]:
    """The label party's side: returns its own row numbers of the common ids, in the common order."""
    me, peers, early = roster.label_party, roster.feature_parties, list[Message]()
    if not peers:
        raise ConfigError("Expected at least one feature party to align with, got none.")
    _check_count(ids)
    curve = Curve(salt, processes)
    order = np.argsort(np.frombuffer(os.urandom(8 * len(ids)), "<u8"))  # ours alone, so not from the run's seed
    blind, undo = draw_blind()
    asked = curve.of_ids([ids.values[i] for i in order], blind)
    for peer in peers:
        yield bytes_message(batch, me, peer, Kind.POINTS, asked)
    offers = yield from collect(batch, Kind.POINTS, peers, early)
    answers = yield from collect(batch, Kind.POINTS, peers, early)
    _nothing_more(early)
    opened = {p: curve.multiply(points_in(answers[p], len(ids), len(ids)), undo, p) for p in peers}
    common = np.flatnonzero(_common(offers, opened))
    chosen = [ids.values[order[i]] for i in common]
    common = common[_common_order(chosen, seed)]
    for peer in peers:
        yield bytes_message(batch, me, peer, Kind.POINTS, digests(opened[peer][common], TAG))
    return torch.from_numpy(ids.rows[order[common]])


def follow(
    name: str, ids: Ids, roster: Roster, batch: Batch, *, salt: bytes, processes: int | None = None
) -> Talk[Tensor]:
    """A feature party's side: returns its own row numbers of the common ids, in the common order.

    What needs no peer comes first, so that over a network all parties compute at the same time.
    """
    leader, early = (roster.label_party,), list[Message]()
    if name not in roster.feature_parties:
        raise ConfigError(f"Expected one of the feature parties {', '.join(roster.feature_parties)}, got {name}.")
    _check_count(ids)
    curve, key = Curve(salt, processes), draw_key()
    others = [other for other in roster.feature_parties if other != name]
    keys = KeyPair(name, extra="net")
    for other in others:
        public = np.frombuffer(keys.public, np.uint8).reshape(1, -1)
        yield bytes_message(batch, name, other, Kind.SETUP, public)
    own = curve.of_ids(ids.values, key)
    tags = as_tags(digests(own, TAG))
    by_tag = np.argsort(tags)
    offer = as_rows(tags[by_tag])
    if others:
        publics = yield from collect(batch, Kind.SETUP, others, early)
        seeds = keys.agree(keys_in(publics), CONTEXT, salt)
        hidden = shares(ids.values, seeds.values())
        offer = okvs.encode(own, digests(own, PAD).view("<u8") ^ hidden)
    yield bytes_message(batch, name, roster.label_party, Kind.POINTS, offer)
    asked = yield from collect(batch, Kind.POINTS, leader, early)
    answer = curve.multiply(points_in(asked[leader[0]]), key, leader[0])
    yield bytes_message(batch, name, roster.label_party, Kind.POINTS, answer)
    result = yield from collect(batch, Kind.POINTS, leader, early)
    _nothing_more(early)
    return torch.from_numpy(ids.rows[by_tag[_places(result[leader[0]], tags[by_tag], min(len(ids), len(answer)))]])


def _check_count(ids: Ids) -> None:
    if len(ids) > MOST_IDS:
        raise DataError(f"Expected at most {MOST_IDS} ids to align, got {len(ids)}.")


def _nothing_more(early: list[Message]) -> None:
    if early:
        raise ProtocolError(f"Expected nothing more to align by from {early[0].sender}, got a {early[0].kind.value}.")


def _common(offers: Mapping[str, Message], opened: Mapping[str, Bytes]) -> NDArray[np.bool_]:
    """Which of the leader's ids all feature parties hold."""
    if len(offers) == 1:
        (peer, offer), *_ = offers.items()
        return find(as_tags(digests(opened[peer], TAG)), sorted_tags_in(offer))[0]
    tables = {peer: table_in(offer) for peer, offer in offers.items()}
    total = np.zeros((len(next(iter(opened.values()))), 2), np.uint64)
    for peer, points in opened.items():
        total ^= revealed(tables[peer], points)
    return np.asarray(~total.any(axis=1))


def revealed(table: Bytes, points: Bytes) -> NDArray[np.uint64]:
    """What a table and F_i(x) show the leader: party i's share of x if it holds x, otherwise a uniform number."""
    shown: NDArray[np.uint64] = okvs.decode(table, points) ^ digests(points, PAD).view("<u8")
    return shown


def _common_order(chosen: list[bytes], seed: int) -> NDArray[np.int64]:
    key = derive(seed, "align").to_bytes(8, "little")
    hashed = b"".join([blake2b(id_, key=key, digest_size=VALUE).digest() for id_ in chosen])
    return np.argsort(as_tags(np.frombuffer(hashed, np.uint8).reshape(-1, VALUE)))


def _places(message: Message, own: NDArray[np.bytes_], most: int) -> NDArray[np.int64]:
    """Where the leader's tags stand in our sorted ones: all must, each once."""
    tags = tags_in(message, most)
    known, place = find(tags, own)
    if not known.all() or len(np.unique(place)) < len(place):
        raise ProtocolError(f"Expected tags of common ids, each once, from {message.sender}, got others.")
    return place
