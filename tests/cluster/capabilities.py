"""Probes for what a cluster of real nodes needs from the machine; a test skips by their word."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from images import BUSYBOX
from node import CGROUPS

_PROGRAMS = ("containerd", "ctr", "runc", "ip", "unshare", "nsenter", "setpriv", "mount", "openssl")
_CNI_PLUGINS = ("bridge", "host-local", "loopback")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids")


def missing_capabilities():
    """What is missing here, in words; empty where a cluster can run."""
    if os.geteuid() != 0:
        return ["root"]
    missing = [f"program {name}" for name in _PROGRAMS if shutil.which(name) is None]
    missing += [f"network plug-in {name}" for name in _CNI_PLUGINS
                if not pathlib.Path("/usr/lib/cni", name).exists()]
    missing += [f"cgroup v1 controller {name}" for name in _CONTROLLERS
                if not _is_writable_cgroup(CGROUPS / name)]
    if not BUSYBOX.exists() or b"/ld-linux" in BUSYBOX.read_bytes():
        missing.append("static busybox")
    if missing:
        return missing
    if not _can("true"):
        missing.append("namespaces (unshare)")
    if not _can("ip link add name probe0 type bridge"):
        missing.append("network bridges")
    if not _can("ip link add name probe0 type veth peer name probe1"):
        missing.append("virtual network links")
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        for part in ("lower", "upper", "work", "all"):
            os.mkdir(os.path.join(folder, part))
        if not _can(f"cd {folder} && mount -t overlay overlay "
                    "-o lowerdir=lower,upperdir=upper,workdir=work all"):
            missing.append(f"overlay mounts on {folder}")
    return missing


def _can(script):
    """Whether root may do this, tried where nobody else sees it."""
    run = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", script],
        capture_output=True,
    )
    return run.returncode == 0


def _is_writable_cgroup(folder):
    return os.path.ismount(folder) and os.access(folder, os.W_OK)
