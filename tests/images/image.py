"""Builds the images with docker/build.sh, reads them, and runs their programs as a pod would."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(
    os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build" / "dev" / "bin")
).resolve()
ARCHIVES = BIN.parent / "images"
USER_ID = 65532
# Far above what any program here takes, so that a hang is a failure, and a busy machine is none.
RUN_SECONDS_MAX = 600


def require_builder():
    """Probe: skips the calling tests where images cannot be built."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("images are built by root")
    missing = [tool for tool in ("buildah", "mmdebstrap", "unshare") if not shutil.which(tool)]
    if missing:
        raise unittest.SkipTest(f"not installed: {', '.join(missing)}")
    own_mounts = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    if subprocess.run(own_mounts, capture_output=True).returncode != 0:
        raise unittest.SkipTest("no namespaces of our own: CAP_SYS_ADMIN is missing")


@functools.cache
def build(name):
    """The archive of one image, built from the sources as they are."""
    script = REPOSITORY / "docker" / "build.sh"
    subprocess.run([script, "--preset", "dev", "--archive", ARCHIVES, name], check=True)
    return Image(ARCHIVES / f"{name}.tar")


class Image:
    """A docker archive."""

    def __init__(self, archive):
        self._archive = archive
        with tarfile.open(archive) as tar:
            self._manifest = json.load(tar.extractfile("manifest.json"))[0]
            self.config = json.load(tar.extractfile(self._manifest["Config"]))["config"]
        self.tags = self._manifest["RepoTags"]

    def members(self):
        """Every file of every layer, as tarfile.TarInfo."""
        with tarfile.open(self._archive) as tar:
            for layer in self._manifest["Layers"]:
                with tarfile.open(fileobj=tar.extractfile(layer)) as content:
                    yield from content

    def unpack(self, folder):
        with tarfile.open(self._archive) as tar:
            for layer in self._manifest["Layers"]:
                with tarfile.open(fileobj=tar.extractfile(layer)) as content:
                    content.extractall(folder)
        return Root(self, folder)


# Runs in namespaces of its own: a root that cannot be written, the usual small mounts, loopback.
_CONTAINER = """\
set -e
mount --bind "$ROOT" "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=755 dev "$ROOT/dev"
for device in null zero full random urandom; do
  touch "$ROOT/dev/$device"
  mount --bind "/dev/$device" "$ROOT/dev/$device"
done
mkdir "$ROOT/dev/shm"
mount -t tmpfs -o mode=1777 shm "$ROOT/dev/shm"
mount -o remount,bind,ro "$ROOT"
ip link set lo up
exec "$@"
"""


class Root:
    """The unpacked files of an image."""

    def __init__(self, image, folder):
        self._image, self._folder = image, folder
        for mount_point in ("proc", "dev"):
            (folder / mount_point).mkdir(exist_ok=True)

    def run(self, *arguments, environment=None):
        """The entry point with these arguments, as a restricted pod with a read-only root runs it:
        not root, nowhere to write, no network but loopback."""
        variables = dict(entry.split("=", 1) for entry in self._image.config.get("Env", []))
        variables.update(environment or {})
        namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child"]
        settings = [f"{name}={value}" for name, value in variables.items()]
        enter = [shutil.which("chroot"), f"--userspec={USER_ID}:{USER_ID}", self._folder]
        program = [*enter, *self._image.config["Entrypoint"], *arguments]
        return subprocess.run(
            [*namespaces, "sh", "-c", _CONTAINER, "sh", "env", "-i", *settings, *program],
            env={"PATH": os.environ["PATH"], "ROOT": str(self._folder)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS_MAX,
        )
