"""Archives of text files, as datasets are served."""

import io
import lzma
import tarfile


def tar_xz(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode("latin-1"))
            archive.addfile(member, io.BytesIO(text.encode("latin-1")))
    return lzma.compress(out.getvalue())
