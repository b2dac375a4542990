"""What a run of the laboratory depends on, and can be made to fail: storage, a disk, a clock."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from scripts.lab.cluster import LabCluster, free_ports, wait_for
from scripts.lab.netlab import Host, Neighbour
from scripts.lab.unsteady import Unsteady, unsteady

BUCKET = "soak"
KEYS = {
    "AWS_ACCESS_KEY_ID": "lab",
    "AWS_SECRET_ACCESS_KEY": "lab",
    "AWS_DEFAULT_REGION": "us-east-1",
}
DISK = "size=64m"


@contextmanager
def object_storage(host: Host | Neighbour, log: Path) -> Iterator[Unsteady]:
    """An S3 server. This process reaches it directly, the hosts only through an unsteady proxy."""
    import s3fs

    port = free_ports(1)[0]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("ab") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file)
    os.environ |= KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    try:
        wait_for(partial(_made_bucket, s3fs.S3FileSystem(skip_instance_cache=True)), 30)
        with unsteady(os.environ["AWS_ENDPOINT_URL"], host.listen()) as proxy:
            proxy.method = None
            yield proxy
    finally:
        server.terminate()
        server.wait(30)


def _made_bucket(files: Any) -> bool:
    try:
        files.mkdir(BUCKET)
    except OSError:
        return False
    return True


class Disk:
    """A small file system of its own, which can be filled. Needs root on Linux."""

    def __init__(self, folder: Path, isolated: bool) -> None:
        folder.mkdir()
        self.folder, self._ballast = folder, folder / "ballast"
        self._mounted = isolated
        if isolated:
            mount = ["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(folder)]
            subprocess.run(mount, check=True, capture_output=True)

    def fill(self, cluster: LabCluster, chance: random.Random) -> str:
        """No space is left on it for a moment."""
        seconds = chance.uniform(0.5, 3)
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(2**16))
        cluster.heal_after(seconds, partial(self._ballast.unlink, missing_ok=True))
        return f"disk full for {seconds:.1f} s"

    def close(self) -> None:
        """Remove it."""
        if self._mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)


class WallClock:
    """The wall clock of the processes that are started with `env`."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        self._offset.write_bytes(bytes(8))
        library = folder / "clock.so"
        build = [shutil.which("cc") or "cc", "-O2", "-shared", "-fPIC", "-o", str(library)]
        source = Path(__file__).with_name("clock.c")
        try:
            subprocess.run([*build, str(source), "-ldl"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.env: dict[str, str] = {}
        else:
            self.env = {"LD_PRELOAD": str(library), "HOLDFAST_LAB_CLOCK": str(self._offset)}

    def jump(self, chance: random.Random) -> str:
        """The clock jumps, to at most a day before or after the true time."""
        seconds = chance.randint(-86_400, 86_400)
        with self._offset.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))
        return f"clock set to {seconds:+d} s"
