"""Files: written whole or not at all. A reader meets the old file or the new one, never half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, private: bool = False, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends, and goes if the block fails.

    Its name is new and random, so no link that somebody laid is followed; with `private` only its owner may read it,
    from the first byte on. Without `overwrite` a file that is there already stays, and FileExistsError is raised.
    Content and name are on the disk when this returns.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        if not private:
            temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        if overwrite:
            temporary.replace(path)
        else:
            path.hardlink_to(temporary)  # unlike a rename, this fails where there is a file already
            temporary.unlink()
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes, *, private: bool = False, overwrite: bool = True) -> None:
    """Write a file."""
    with replacing(path, private=private, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a file of text."""
    write_bytes(path, text.encode())


def _sync(path: Path) -> None:
    """Hand a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
