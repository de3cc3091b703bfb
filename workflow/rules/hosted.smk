# Unpacking of a hosted workflow (`github(...)`, `gitlab(...)` or `gitfile(...)`), because Snakemake
# copies single files of it, and scripts need the modules beside them.

import hashlib
import os
import re
import tempfile

FIXED = r"[/=@](v?\d+(\.\d+)+|[0-9a-f]{40})([/&]|$)"
"""The version or the commit in the address of a file that never changes, unlike that of a branch."""


def unpacked(address):
    """Copy the files listed in files.txt to a folder in the working directory, and return it."""

    def read(name):
        return Path(workflow.source_path(f"../../{name}")).read_bytes()

    def read_listed():
        return {name: read(name) for name in read("workflow/files.txt").decode().split()}

    files = {} if re.search(FIXED, address) else read_listed()
    key = hashlib.sha256(repr((address, files)).encode()).hexdigest()[:16]
    folder = Path(f".snakemake/neuralfield/{key}").absolute()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
        for name, content in (files or read_listed()).items():
            path = unfinished / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content + b"\n")  # which Git's output is stripped of
            # an old time, so that no job runs again because its script is newer than its results
            os.utime(path, (1e9, 1e9))
        os.replace(unfinished, folder)
    return folder
