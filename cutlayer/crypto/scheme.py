"""What encryption offers a protocol: one operation, `rows @ [matrix] + mask`, done blind by the other party.

The owner of a `SecretKey` encrypts a matrix and sends it with the `PublicKey`. The evaluator multiplies
it by its own plain rows, adds a mask and sends the result back; the owner decrypts to
`rows @ matrix + mask` modulo t and learns nothing else: every result is *sanitised*, since the
randomness and the noise of a bare product give the rows away. Sanitising is part of the one operation,
so that it cannot be forgotten; a result without it refuses to become bytes.

    owner                                     evaluator
    secret = Bfv(ring).generate()
    secret.public.to_bytes()            ->    public = Bfv(ring).read_key(...)
    secret.encrypt(matrix).to_bytes()   ->    operand = public.read_operand(..., shape)
    result = secret.public.read_result( <-    public.masked_product(rows, operand, mask).to_bytes()
        ..., rows=256, of=shape)
    secret.decrypt(result)

Guarantee: 128 bits against a semi-honest owner or evaluator (parameters.py).
Does not hide: shapes; nor the time a product takes, which grows with the columns that are not zero.
Secret keys have no byte form and do not show in a repr.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from cutlayer.crypto.envelope import CipherForm, Envelope, MatrixSource, unwrap
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.crypto.rows import PlainRows
from cutlayer.errors import ConfigError, DataError, ProtocolError


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A matrix under a public key."""

    public: "PublicKey" = field(repr=False)
    form: CipherForm
    shape: tuple[int, int]
    source: MatrixSource  # this matrix, or the one that a result came from
    parts: tuple[object, ...] = field(repr=False)  # ciphertexts of a library, into which its scheme alone looks
    seed: bytes = field(default=b"", repr=False)  # public: half of a BFV operand grows from it
    sanitised: bool = True

    def to_bytes(self) -> bytes:
        """The bytes that cross."""
        if not self.sanitised:
            raise ConfigError("This result is not sanitised and would show the rows to the key owner; it stays here.")
        return self.public.envelope(self.form, self.shape, self.source).wrap(self.public.pack(self))


class PublicKey(ABC):
    """What the evaluator holds: multiply blind."""

    ring: Ring
    parameters: bytes  # names the scheme and its parameters
    key_id: bytes  # names the key

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The bytes that cross; never a secret."""

    def masked_product(
        self, rows: PlainRows | Residues, encrypted: Encrypted, mask: Residues, *, sanitise: bool = True
    ) -> Encrypted:
        """Return `rows @ matrix + mask`, still encrypted, showing nothing else of `rows` to the key owner.

        `sanitise=False` exists for the test that recovers the rows from such a result.
        """
        plain = self.ring.check_rows(rows)
        if encrypted.form is not CipherForm.OPERAND or encrypted.public.key_id != self.key_id:
            raise ProtocolError("Expected an encrypted matrix under this key, got a result or another key's matrix.")
        if plain.shape[1] != encrypted.shape[0] or not plain.shape[0]:
            raise DataError(f"Expected rows with {encrypted.shape[0]} columns, got shape {plain.shape}.")
        shape = (plain.shape[0], encrypted.shape[1])
        if self.ring.check(mask, "mask").shape != shape:
            raise DataError(f"Expected a mask of shape {shape}, got {mask.shape}.")
        parts = tuple(self.multiply(plain, encrypted, mask, sanitise))
        return Encrypted(self, CipherForm.RESULT, shape, encrypted.source, parts, sanitised=sanitise)

    def read_operand(self, data: bytes | memoryview, shape: tuple[int, int], for_rows: int = 0) -> Encrypted:
        """Read an encrypted matrix that the key owner sent, of exactly this shape."""
        return self._read(data, CipherForm.OPERAND, shape, MatrixSource(*shape, for_rows))

    def read_result(self, data: bytes | memoryview, rows: int, of: tuple[int, int], for_rows: int = 0) -> Encrypted:
        """Read a masked product that the evaluator sent: so many rows times an encrypted matrix of this shape."""
        return self._read(data, CipherForm.RESULT, (rows, of[1]), MatrixSource(*of, for_rows))

    def _read(
        self, data: bytes | memoryview, form: CipherForm, shape: tuple[int, int], source: MatrixSource
    ) -> Encrypted:
        self.check_shape(*shape, source.rows, source.for_rows + 1)
        body = unwrap(data, self.envelope(form, shape, source))
        parts, seed = self.unpack(body, form, shape, source)
        return Encrypted(self, form, shape, source, tuple(parts), seed)

    def envelope(self, form: CipherForm, shape: tuple[int, int], source: MatrixSource) -> Envelope:
        """The envelope that an encrypted matrix of this form and shape must have."""
        return Envelope(form, self.parameters, self.key_id, shape, source, self.body_bytes(form, shape, source))

    def check_shape(self, *sizes: int) -> None:
        """Refuse sizes that are not positive or do not fit an envelope."""
        if min(sizes) < 1 or max(sizes) >= 1 << 31:
            raise DataError(f"Expected a matrix with at least one row and one column, got sizes {sizes}.")

    @abstractmethod
    def multiply(self, rows: PlainRows, encrypted: Encrypted, mask: Residues, sanitise: bool) -> Sequence[object]:
        """The ciphertexts of `rows @ matrix + mask`; shapes are checked already."""

    @abstractmethod
    def body_bytes(self, form: CipherForm, shape: tuple[int, int], source: MatrixSource) -> int:
        """The exact size of a body, known before it is read."""

    @abstractmethod
    def pack(self, encrypted: Encrypted) -> bytes:
        """The body of an encrypted matrix: its ciphertexts as bytes."""

    @abstractmethod
    def unpack(
        self, body: memoryview, form: CipherForm, shape: tuple[int, int], source: MatrixSource
    ) -> tuple[Sequence[object], bytes]:
        """The ciphertexts and the seed of a body; refuses what is no ciphertext under this key."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key_id.hex()})"


class SecretKey(ABC):
    """What only the owner holds: encrypt and decrypt. There is no way to write it down."""

    public: PublicKey

    @abstractmethod
    def encrypt(self, matrix: Residues, for_rows: int = 0) -> Encrypted:
        """Encrypt a matrix of residues, to be multiplied from the left.

        By default for a matrix that is kept, where replies are small. One that meets `for_rows` rows and
        is then replaced is packed so that both directions together are small; the evaluator says the same.
        """

    def decrypt(self, encrypted: Encrypted) -> Residues:
        """Decrypt a matrix under this key; refuses any other."""
        if encrypted.public.key_id != self.public.key_id:
            raise ProtocolError(
                f"Expected a matrix under key {self.public.key_id.hex()}, got key {encrypted.public.key_id.hex()}."
            )
        return self.open(encrypted)

    @abstractmethod
    def open(self, encrypted: Encrypted) -> Residues:
        """The residues in an encrypted matrix that is known to be under this key."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret key is never copied or written down.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(of {self.public.key_id.hex()})"


class Scheme(ABC):
    """A way to encrypt, for one ring: `Bfv(ring)` or `Paillier(ring)`."""

    ring: Ring

    @abstractmethod
    def generate(self) -> SecretKey:
        """Make a fresh key pair."""

    @abstractmethod
    def read_key(self, data: bytes | memoryview) -> PublicKey:
        """Read a public key that a peer sent."""
