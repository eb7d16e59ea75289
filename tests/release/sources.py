"""Clones of this repository as it is now, from which tests make releases."""

import pathlib
import re
import shutil
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(lockstep VERSION ([\d.]+)",
                    (REPOSITORY / "CMakeLists.txt").read_text())[1]
LICENCE = pathlib.Path("/usr/share/common-licenses/Apache-2.0")
_GIT = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
_MOMENT = "2026-01-02T03:04:05Z"  # of every commit: two clones are to be equal


class Sources:
    """A repository of one commit with the files of this one, committed here or not."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        listed = self._run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           REPOSITORY).stdout
        for name in filter(None, listed.split("\0")):
            if (REPOSITORY / name).is_file():
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / name, target, follow_symlinks=False)
        self.git("init", "--quiet")
        self.commit()
        self._first = self.git("rev-parse", "HEAD").strip()

    def _run(self, command, folder, **environment):
        return subprocess.run(list(map(str, command)), cwd=folder, check=True, capture_output=True,
                              text=True, env=environment or None)

    def git(self, *arguments):
        return self._run([*_GIT, *arguments], self.folder, PATH="/usr/bin:/bin", HOME="/",
                         GIT_COMMITTER_DATE=_MOMENT, GIT_AUTHOR_DATE=_MOMENT).stdout

    def reset(self):
        """As it was made, without a licence and without a release."""
        self.git("reset", "--quiet", "--hard", self._first)
        self.git("clean", "--quiet", "-ffdx")

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=as it is")

    def add_licence(self):
        shutil.copy(LICENCE, self.folder / "LICENSE")
        self.commit()
        return self

    def release(self, *arguments, seconds=60, **options):
        """Runs scripts/release.sh; returns (exit code, stdout and stderr)."""
        run = subprocess.run([self.folder / "scripts" / "release.sh", *map(str, arguments)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             stdin=subprocess.DEVNULL, timeout=seconds, **options)
        return run.returncode, run.stdout

    @property
    def dist(self):
        return self.folder / "dist"
