"""One real node: kubelet, containerd and fake GPUs as one process tree in its own namespaces."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

from processes import Program, wait_for
from tools import tool

CGROUPS = pathlib.Path("/sys/fs/cgroup")
CGROUP_PREFIX = "lockstep-"
UPLINK_PREFIX = "lsve"
_INIT = pathlib.Path(__file__).with_name("node_init.sh")

_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
# This plug-in makes /opt/containerd on the machine.
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE nobody may lower it, and runc gives up without saying why.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


class Node:
    """Node number `number` (from 1) of `cluster`; ended by stop(), or at once by crash()."""

    def __init__(self, cluster, number, gpus):
        self._cluster = cluster
        self._number = number
        self._gpus = gpus
        self.name = f"node{number}"
        self.address = f"{cluster.NETWORK}.{number}.1"
        self.folder = cluster.folder / self.name
        self.gpu_folder = self.folder / "gpu"
        self._cgroup = CGROUP_PREFIX + self.name
        self._uplink = f"{UPLINK_PREFIX}{number}"
        self._program = None

    @property
    def pid(self):
        """The process whose end is the end of the node."""
        return self._program.pid

    @property
    def init_pid(self):
        """Process 1 of the node, as this machine sees it."""
        return int(self._children()[0])

    def _children(self):
        return pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()

    def start(self):
        """Starts it, also again after a crash, on the disk it had. Returns at once."""
        for part in ("containerd", "cni", "gpu/unhealthy"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._make_cgroups()
        self._program = Program(
            self.name,
            [
                "unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork",
                "--kill-child=SIGKILL", "--mount-proc", "--propagation", "private",
                "bash", _INIT, self.name, self.folder, f"{self.address}/16",
                self._cluster.GATEWAY, tool("kubelet"), tool("gpu-plugin"), self._gpus,
            ],
            self._cluster.folder / f"{self.name}.log",
        )
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != own, 10, "the node's network")
        ip("link", "add", self._uplink, "master", self._cluster.BRIDGE, "type", "veth",
           "peer", "name", "eth0", "netns", self.pid)
        ip("link", "set", self._uplink, "up")
        wait_for(self._children, 10, "process 1 of the node")

    def wait_containerd(self):
        self._program.wait_ready(lambda: self._ctr("version").returncode == 0)

    def crash(self):
        """Kills the node, with all its containers, at one stroke. As when a machine loses power,
        nothing says goodbye to those it is connected with."""
        ip("link", "delete", self._uplink, check=False)
        self._program.kill()

    def stop(self):
        """Ends it and takes away what this machine still has of it, but for its disk."""
        if self._program is not None:
            self.crash()
        remove_cgroups(self._cgroup)

    def is_up(self):
        return self._program is not None and self._program.is_running()

    def import_image(self, archive):
        """Makes the images of a docker or OCI archive known to the node."""
        run = self._ctr("--namespace", "k8s.io", "images", "import", archive)
        if run.returncode != 0:
            raise AssertionError(f"import of {archive} on {self.name}: {run.stderr}")

    def _ctr(self, *arguments):
        return self.run("ctr", *arguments)

    def run(self, *command):
        """Runs a command of this machine inside the node."""
        return subprocess.run(
            ["nsenter", f"--target={self.init_pid}", "--all", "--", *map(str, command)],
            capture_output=True, text=True, timeout=120,
        )

    def container_pid(self, pod, container=None):
        """The main process of a pod's container, as this machine sees it."""
        statuses = pod["status"]["containerStatuses"]
        wanted = [each for each in statuses if container in (None, each["name"])][0]
        identity = wanted["containerID"].rpartition("/")[2]
        for folder in (CGROUPS / "memory" / self._cgroup).rglob(identity):
            return int((folder / "cgroup.procs").read_text().split()[0])
        raise ProcessLookupError(identity)

    def kill_container(self, pod):
        """SIGKILL to a pod's main process, as the kernel's out-of-memory killer does it."""
        os.kill(self.container_pid(pod), signal.SIGKILL)

    def allocation_log(self):
        """What the device plugin handed out, oldest first: {"time": ..., "devices": [...]}."""
        record = self.gpu_folder / "allocations.jsonl"
        lines = record.read_text().splitlines() if record.exists() else []
        return [json.loads(line) for line in lines]

    def allocations(self):
        """The devices of each entry of that log."""
        return [entry["devices"] for entry in self.allocation_log()]

    def devices_of(self, pod):
        """The devices of a pod, by the kubelet's own book."""
        book = self.folder / "kubelet" / "device-plugins" / "kubelet_internal_checkpoint"
        entries = json.loads(book.read_text())["Data"]["PodDeviceEntries"] or []
        uid = pod["metadata"]["uid"]
        return sorted(
            device
            for entry in entries if entry["PodUID"] == uid
            for devices in entry["DeviceIDs"].values()
            for device in devices
        )

    def set_gpu_healthy(self, index, healthy):
        flag = self.gpu_folder / "unhealthy" / str(index)
        flag.unlink(missing_ok=True) if healthy else flag.touch()

    def refuse_allocations(self, refuse=True):
        """While refused, a pod that wants GPUs fails with UnexpectedAdmissionError."""
        flag = self.gpu_folder / "refuse"
        flag.touch() if refuse else flag.unlink(missing_ok=True)

    def logs(self):
        parts = [self._program.tail()]
        for name in ("containerd", "kubelet", "gpu-plugin"):
            log = self.folder / f"{name}.log"
            if log.exists():
                last = log.read_text(errors="replace").splitlines()[-8:]
                parts.append(f"{name}:\n" + "\n".join(last))
        return "\n".join(parts)

    def _write_configuration(self):
        folder = self.folder
        pause = self._cluster.PAUSE
        (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, pause=pause))
        (folder / "resolv.conf").write_text(f"nameserver {self._cluster.GATEWAY}\n")
        shutil.copy(self._cluster.plane.kubeconfig(f"system:node:{self.name}"),
                    folder / "kubeconfig")
        (folder / "kubelet.json").write_text(json.dumps(self._kubelet_configuration(), indent=1))
        (folder / "cni" / "pods.conflist").write_text(json.dumps(self._pod_network(), indent=1))

    def _kubelet_configuration(self):
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "enforceNodeAllocatable": ["pods"],
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": self.address,
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._cluster.plane.credentials.ca_file)},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [self._cluster.GATEWAY],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            "podLogsDir": "/var/log/pods",
            "failSwapOn": False,
            # This machine's disk may be nearly full, and no image can be fetched again.
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%",
                             "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "5s",
            "nodeLeaseDurationSeconds": 10,
            "syncFrequency": "10s",
            "serializeImagePulls": False,
            "volumePluginDir": "/run/volume-plugins",
        }

    def _pod_network(self):
        network = self._cluster.NETWORK
        addresses = {
            "subnet": f"{network}.0.0/16",
            "rangeStart": f"{network}.{self._number}.10",
            "rangeEnd": f"{network}.{self._number}.250",
            "gateway": self._cluster.GATEWAY,
        }
        return {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [{
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": False,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni-addresses",
                    "ranges": [[addresses]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        }

    def _make_cgroups(self):
        for hierarchy in CGROUPS.iterdir():
            if not os.path.ismount(hierarchy):
                continue
            group = hierarchy / self._cgroup
            group.mkdir(exist_ok=True)
            if hierarchy.name == "cpuset":  # nothing may enter before these are filled
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (group / file).write_text((hierarchy / file).read_text())


def remove_cgroups(pattern):
    """Removes the cgroups of that name in all hierarchies; their processes have ended."""

    def removed():
        for group in CGROUPS.glob(f"*/{pattern}"):
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # busy for a moment after the last process has ended
        return not list(CGROUPS.glob(f"*/{pattern}"))

    wait_for(removed, 30, f"cgroups {pattern} to be empty")


def ip(*arguments, check=True):
    """Runs ip(8); returns what it printed."""
    run = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True)
    if check and run.returncode != 0:
        raise AssertionError(f"ip {' '.join(map(str, arguments))}: {run.stderr}")
    return run.stdout
