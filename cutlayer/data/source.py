"""Finding dataset files: the user's folder, then the cache, then the official address.

A file may lie there as it is or packed as .gz or .xz. What is downloaded is checked against a
known sum, written under another name and renamed, so a broken download is never taken for data.
Files in the user's own folder are not summed: loaders check their row and column counts instead.
Nothing is ever unpickled, and archives are read in memory, never unpacked to disk.
"""

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from cutlayer.errors import DataError

MB = 1 << 20
_PACKED = ("", ".gz", ".xz")
_TIMEOUT = 60
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, KeyError)


@dataclass(frozen=True, slots=True)
class File:
    """One file: its place below a data folder, and how to get it if it is not there."""

    path: str  # without .gz or .xz, e.g. "mnist/train-images-idx3-ubyte"
    url: str = ""  # the official address; empty where there is none with this content
    member: str = ""  # the file's name inside the zip that the address serves
    sha256: str = ""  # of the unpacked content
    served: str = ""  # sha256 as served, for a large .tar.gz, which is kept packed
    size: int = 128 * MB  # the most bytes that its unpacked content may have
    folders: tuple[str, ...] = ()  # system folders that may hold it under its bare name
    hint: str = ""  # where a person can get it


def cache_folder() -> Path:
    """Where downloads are kept: cutlayer/ below XDG_CACHE_HOME, or below ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cutlayer"


def locate(*files: File) -> Path | None:
    """Return where the first of these files lies, or None. Downloads nothing."""
    return next((place for file in files for place in _places(file) if place.is_file()), None)


def find(*files: File) -> Path:
    """Return where the first of these files lies; download the first that has an address if none does."""
    path = locate(*files)
    if path is not None:
        return path
    offered = next((file for file in files if file.url), None)
    if offered is None:
        raise DataError(_missing(files, ""))
    try:
        return _download(offered)
    except (*_DAMAGED, ValueError) as error:
        raise DataError(_missing(files, f", and downloading {offered.url} failed ({error})")) from error


def read(file: File) -> bytes:
    """Return the unpacked content of a file."""
    path = find(file)
    try:
        with open_packed(path) as stream:
            return _capped(stream, file.size)
    except (*_DAMAGED, ValueError) as error:
        raise DataError(f"Could not read {path}: {error}.") from error


def read_tar(path: Path, most: int = 1024 * MB) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every plain file in a tar archive, in its order."""
    total = 0
    try:
        with open_packed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                total += member.size
                if total > most:
                    raise ValueError(f"more than {most} bytes of content")
                yield member.name, content.read()
    except (*_DAMAGED, ValueError) as error:
        raise DataError(f"Could not read {path}: {error}.") from error


def open_packed(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking .gz and .xz on the way."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _places(file: File) -> list[Path]:
    named = os.environ.get("CUTLAYER_DATA")
    folders = [Path(named).expanduser()] if named else []
    inside = [folder / file.path for folder in [*folders, cache_folder()]]
    inside += [Path(folder) / Path(file.path).name for folder in file.folders]
    return [place.with_name(place.name + suffix) for place in inside for suffix in _PACKED]


def _capped(stream: IO[bytes], most: int) -> bytes:
    content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most} bytes of content")
    return content


def _download(file: File) -> Path:
    target = cache_folder() / file.path
    if file.served:
        target = target.with_name(target.name + ".gz")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".part-")
    part = Path(name)
    try:
        with os.fdopen(handle, "w+b") as out:
            _copy(file, out)
        part.chmod(0o644)
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _copy(file: File, out: IO[bytes]) -> None:
    """Write what the address serves, checked and unpacked, to an open file."""
    with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as response:
        if file.served:
            _same_sum(file.served, _stream(response, out, file.size))
            return
        content = _capped(response, file.size)
    if file.member:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(file.member) as member:
            content = _capped(member, file.size)
    elif file.url.endswith(".gz"):
        with gzip.open(io.BytesIO(content)) as unpacked:
            content = _capped(cast(IO[bytes], unpacked), file.size)
    if file.sha256:
        _same_sum(file.sha256, hashlib.sha256(content).hexdigest())
    out.write(content)


def _stream(response: IO[bytes], out: IO[bytes], most: int) -> str:
    digest, total = hashlib.sha256(), 0
    while block := response.read(MB):
        total += len(block)
        if total > most:
            raise ValueError(f"more than {most} bytes of content")
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


def _same_sum(expected: str, actual: str) -> None:
    if expected != actual:
        raise ValueError(f"expected sha256 {expected}, got {actual}")


def _missing(files: tuple[File, ...], also: str) -> str:
    names = " or ".join(file.path for file in files)
    folders = " or ".join(dict.fromkeys(str(place.parent) for file in files for place in _places(file)))
    hints = " ".join(dict.fromkeys(file.hint for file in files if file.hint))
    named = "" if os.environ.get("CUTLAYER_DATA") else " (CUTLAYER_DATA is not set)"
    advice = f"Set CUTLAYER_DATA to a folder that holds it. {hints}".strip()
    return f"Expected {names} (as it is, .gz or .xz) in {folders}{named}{also}. {advice}"
