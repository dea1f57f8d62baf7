"""An oblivious key-value store: a table that gives every key its value, and nothing to anyone without the keys.

A key's value is the XOR of three slots, one in each third of the table, and of those of 128 *dense* slots that a mask
of 128 bits chooses; slots and mask come from a hash of key and salt. To fill the table, keys are peeled: a key that
is alone in a slot is set aside, since that slot can give it any value; this may leave other keys alone in theirs. At
1.3 slots per key nearly all are set aside; those that stay are solved by elimination over the dense slots. Slots that
no key needs are random.

Oblivious: if the values are uniform, so is the whole table, whatever the keys are, because values and free slots map
one to one onto tables. This holds up to the chance that a set of keys cannot be solved and another salt is drawn, which
would say a little about the set; the dense slots make it negligible. If at most 88 keys stay, that chance is
below 2^-40 (88 random masks of 128 bits depend on each other). So it is for up to 88 keys; above, counts say so
(see `test_few_keys_stay`: never more than a few stay), which is evidence and not a proof.

After Garimella et al. (CRYPTO 2021) and Raghuraman and Rindal (CCS 2022).
"""

import os
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cutlayer.align.curve import Bytes
from cutlayer.align.shares import VALUE, Words
from cutlayer.errors import RunError

DENSE = 128
HEAD = 1 + DENSE  # rows of a table before its thirds: the salt, the dense slots
SPARE = 100  # more slots in each third, so that small tables are far from full
TRIES = 8

Numbers = NDArray[np.int64]


def third(keys: int) -> int:
    """Slots in each third of a table for so many keys."""
    return -(-keys * 13 // 30) + SPARE


def rows_for(keys: int) -> int:
    """Rows of such a table."""
    return HEAD + 3 * third(keys)


def encode(keys: Bytes, values: Words) -> Bytes:
    """Make a table of `rows_for(len(keys))` rows of 16 bytes that decodes each key to its value."""
    for _ in range(TRIES):
        rows = rows_for(len(keys))
        table = np.frombuffer(os.urandom(rows * VALUE), np.uint8).reshape(rows, VALUE).copy()
        places, masks = _places(keys, table[0].tobytes(), third(len(keys)))
        rounds, stay = peel(places, 3 * third(len(keys)))
        slots = table.view("<u8")
        dense, sparse = slots[1:HEAD], slots[HEAD:]
        left = values[stay] ^ _xor(sparse, places[stay]) ^ _masked(dense, masks[stay])
        if not solve(dense, masks[stay], left):
            continue
        wanted = values ^ _masked(dense, masks)
        for chosen, slot in reversed(rounds):
            sparse[slot] ^= wanted[chosen] ^ _xor(sparse, places[chosen])
        return table
    raise RunError(f"Could not fill a table of {len(keys)} keys in {TRIES} tries; is this machine's memory sound?")


def decode(table: Bytes, keys: Bytes) -> Words:
    """The value of each key; uniform for one that the table was not made with."""
    places, masks = _places(keys, table[0].tobytes(), (len(table) - HEAD) // 3)
    slots = np.ascontiguousarray(table).view("<u8")
    return _xor(slots[HEAD:], places) ^ _masked(slots[1:HEAD], masks)


def _places(keys: Bytes, salt: bytes, size: int) -> tuple[Numbers, Bytes]:
    """Three slots and a mask for each key."""
    data = keys.tobytes()
    step = keys.shape[1]
    parts = (data[start : start + step] for start in range(0, len(data), step))
    hashed = b"".join([blake2b(part, digest_size=40, salt=salt, person=b"cutlayer okvs").digest() for part in parts])
    digests = np.frombuffer(hashed, np.uint8).reshape(-1, 40)
    numbers = np.ascontiguousarray(digests[:, :24]).view("<u8") % np.uint64(size)
    return numbers.astype(np.int64) + np.arange(3) * size, digests[:, 24:]


def _xor(slots: Words, places: Numbers) -> Words:
    first, second, last = places.T
    total: Words = slots[first] ^ slots[second] ^ slots[last]
    return total


def _masked(dense: Words, masks: Bytes) -> Words:
    """XOR of the dense slots that each mask chooses, eight at a time out of a table of their 256 sums."""
    total = np.zeros((len(masks), 2), np.uint64)
    for byte in range(DENSE // 8):
        sums = np.zeros((1, 2), np.uint64)
        for bit in range(8):
            sums = np.concatenate([sums, sums ^ dense[8 * byte + bit]])
        total ^= sums[masks[:, byte]]
    return total


def peel(places: Numbers, slots: int) -> tuple[list[tuple[Numbers, Numbers]], Numbers]:
    """Rounds of (keys, the slot each was alone in), in the order of peeling, and the keys that stay."""
    count = np.bincount(places.ravel(), minlength=slots)
    total = np.zeros(slots, np.int64)  # of the numbers of the keys in a slot: of one key, its number
    np.add.at(total, places.ravel(), np.repeat(np.arange(len(places)), 3))
    here = np.ones(len(places), bool)
    rounds = []
    while len(alone := np.flatnonzero(count == 1)):
        keys, first = np.unique(total[alone], return_index=True)
        rounds.append((keys, alone[first]))
        here[keys] = False
        np.subtract.at(count, places[keys].ravel(), 1)
        np.subtract.at(total, places[keys].ravel(), np.repeat(keys, 3))
    return rounds, np.flatnonzero(here)


def solve(dense: Words, masks: Bytes, left: Words) -> bool:
    """Change the dense slots so that each mask's XOR changes by what is `left`; False if masks depend on each other."""
    pivots: list[tuple[int, int, int]] = []  # (bit, mask, value), each bit in one mask only
    for mask_bytes, value_words in zip(masks, left, strict=True):
        mask, value = (int.from_bytes(part.tobytes(), "little") for part in (mask_bytes, value_words))
        for bit, other, change in pivots:
            if mask >> bit & 1:
                mask, value = mask ^ other, value ^ change
        if not mask:
            return False
        top = mask.bit_length() - 1
        pivots = [(b, m ^ mask, v ^ value) if m >> top & 1 else (b, m, v) for b, m, v in pivots]
        pivots.append((top, mask, value))
    for bit, _, value in pivots:
        dense[bit] ^= np.frombuffer(value.to_bytes(VALUE, "little"), "<u8")
    return True
