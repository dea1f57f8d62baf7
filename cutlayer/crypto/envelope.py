"""The header in front of every key and ciphertext that crosses: all of it is checked before anything is allocated."""

import struct
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

from cutlayer.errors import ProtocolError

MAGIC = b"CLC1"
ID_BYTES = 16
LAYOUT = struct.Struct(f"<4sB{ID_BYTES}s{ID_BYTES}sIIIIQ")
LAYOUT_KEY = slice(5 + ID_BYTES, 5 + 2 * ID_BYTES)


class CipherForm(Enum):
    """What a body holds."""

    KEY = 1  # a public key
    OPERAND = 2  # an encrypted matrix, to be multiplied
    RESULT = 3  # a masked product, to be decrypted


WORDS = {
    CipherForm.KEY: "a public key",
    CipherForm.OPERAND: "an encrypted matrix",
    CipherForm.RESULT: "an encrypted result",
}


def identify(*parts: object) -> bytes:
    """A short name for parameters or a public key: the start of their SHA-256."""
    digest = sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()[:ID_BYTES]


@dataclass(frozen=True, slots=True)
class MatrixSource:
    """The encrypted matrix that numbers come from: fixes, for both parties, where they sit in ciphertexts.

    `for_rows=0` is a matrix to keep; otherwise it will meet so many rows and be replaced by another.
    """

    rows: int
    columns: int
    for_rows: int = 0


NO_SOURCE = MatrixSource(1, 1)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the header says."""

    form: CipherForm
    parameters: bytes
    key_id: bytes
    shape: tuple[int, int]
    source: MatrixSource
    length: int  # bytes of the body

    def wrap(self, body: bytes) -> bytes:
        """Put the header in front of a body."""
        numbers = (*self.shape, self.source.rows, self.source.for_rows, self.length)
        return LAYOUT.pack(MAGIC, self.form.value, self.parameters, self.key_id, *numbers) + body


def key_named(data: bytes | memoryview) -> bytes:
    """The key that a message names, or as much of it as there is."""
    return bytes(memoryview(data)[LAYOUT_KEY])


def unwrap(data: bytes | memoryview, expected: Envelope) -> memoryview:
    """Return the body of a message that is exactly what was expected; otherwise say what differs."""
    view = memoryview(data)
    name = WORDS[expected.form]
    if len(view) < LAYOUT.size:
        raise ProtocolError(f"Expected {name}, got {len(view)} bytes: the message is cut short.")
    magic, form, parameters, key_id, *shape, inner, for_rows, length = LAYOUT.unpack_from(view)
    if magic != MAGIC or form != expected.form.value:
        raise ProtocolError(f"Expected {name}, got a message of another kind.")
    if parameters != expected.parameters:
        raise ProtocolError(f"Expected {name} with parameters {expected.parameters.hex()}, got {parameters.hex()}.")
    if key_id != expected.key_id:
        raise ProtocolError(f"Expected {name} under key {expected.key_id.hex()}, got key {key_id.hex()}.")
    if (*shape, inner, for_rows) != (*expected.shape, expected.source.rows, expected.source.for_rows):
        raise ProtocolError(
            f"Expected {name} of shape {expected.shape} from {expected.source}, got shape {tuple(shape)} "
            f"from {inner} rows and for_rows={for_rows}."
        )
    if length != expected.length or len(view) != LAYOUT.size + length:
        got = len(view) - LAYOUT.size
        raise ProtocolError(f"Expected {expected.length} bytes of {name}, got {got} (the header says {length}).")
    return view[LAYOUT.size :]
