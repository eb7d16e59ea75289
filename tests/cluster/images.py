"""Images for test pods, made without a registry or a daemon."""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile

# The one that every node has: Debian's static busybox. It is the pause image too.
BASE = "localhost/base:1"
# A user's own: the same with the C library, which the runtime that is copied in front of it needs.
USER = "localhost/user:1"
BUSYBOX = pathlib.Path("/bin/busybox")


def make_base_image(archive):
    """Writes the image BASE; its commands are busybox's."""
    _make_image(archive, BASE, [])


def make_user_image(archive, program):
    """Writes the image USER, with the libraries that `program` is linked with."""
    words = subprocess.run(
        ["ldd", program], check=True, capture_output=True, text=True
    ).stdout.split()
    _make_image(archive, USER, [word for word in words if word.startswith("/")])


def _make_image(archive, reference, libraries):
    applets = subprocess.run(
        [BUSYBOX, "--list"], check=True, capture_output=True, text=True
    ).stdout.split()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        _add_file(tar, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
        for applet in set(applets) - {"busybox"}:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        for library in libraries:
            content = pathlib.Path(library).read_bytes()
            _add_file(tar, library.lstrip("/"), content, 0o755)
    _write_archive(archive, reference, layer.getvalue(), ["sleep", "2147483647"])


def _write_archive(archive, reference, layer, command):
    """A docker archive of one layer."""
    layer_digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = layer_digest + ".tar"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": [layer_name]}]
    with tarfile.open(archive, "w") as tar:
        _add_file(tar, "manifest.json", json.dumps(manifest).encode(), 0o644)
        _add_file(tar, config_name, config, 0o644)
        _add_file(tar, layer_name, layer, 0o644)


def _add_file(tar, name, content, mode):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
