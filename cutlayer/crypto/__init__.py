"""Encryption and masks: `rows @ [matrix] + mask` in the ring Z_t, computed blind (scheme.py), and masks that cancel.

`Bfv` is the backend to use; `Paillier` computes the same on another assumption, hundreds of times slower.
`parameters.py` holds every security parameter. Needs the extra: pip install 'cutlayer[secure]'.
"""

from cutlayer.crypto.agreement import Agreement, ZeroSum
from cutlayer.crypto.bfv import Bfv
from cutlayer.crypto.paillier import Paillier
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.crypto.rows import PlainRows
from cutlayer.crypto.scheme import Encrypted, PublicKey, Scheme, SecretKey

__all__ = [
    "Agreement",
    "Bfv",
    "Encrypted",
    "Paillier",
    "PlainRows",
    "PublicKey",
    "Residues",
    "Ring",
    "Scheme",
    "SecretKey",
    "ZeroSum",
]
