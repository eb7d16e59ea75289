"""The Dockerfiles keep the rules of dockerfile.py, and each rule finds what it is for."""

import pathlib
import unittest

from dockerfile import findings, parse, stages

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((REPOSITORY / "docker").glob("*.Dockerfile"))

GOOD = """\
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE} AS build
COPY scripts/install.sh /src/
RUN apt-get update \\
 # what it is for
 && apt-get install --no-install-recommends g++ \\
 && rm -rf /var/lib/apt/lists/*
FROM scratch
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/usr/bin/program"]
"""
# What is changed in GOOD, into what, and a word of the finding.
MISTAKES = [
    ("ARG BASE_IMAGE=debian:bookworm-slim\n", "", "ARG BASE_IMAGE"),
    ("debian:bookworm-slim", "debian", "ARG BASE_IMAGE"),
    ("debian:bookworm-slim", "debian:latest", "every day"),
    ("FROM scratch", "FROM ubuntu:24.04", "ubuntu:24.04"),
    ("USER 65532:65532\n", "", "root"),
    ("USER 65532:65532", "USER 0:0", "NUMBER"),
    ("USER 65532:65532", "USER nobody", "NUMBER"),
    ('["/usr/bin/program"]', "/usr/bin/program", "shell"),
    ('ENTRYPOINT ["/usr/bin/program"]', "", "no ENTRYPOINT"),
    ("COPY scripts/install.sh", "ADD scripts/install.sh", "COPY"),
    ("apt-get update", "curl x | sh", "signature"),
    ("apt-get update", "pip install nvidia-nccl-cu13", "without a version"),
    ("&& rm -rf /var/lib/apt/lists/*", "", "package lists"),
    (" --no-install-recommends", "", "recommends"),
    ("scripts/install.sh", "scripts/absent.sh", "absent.sh"),
    ("scripts/install.sh", "docs/reference/cli.md", ".dockerignore"),
    ("--from=build", "--from=elsewhere", "no stage elsewhere"),
    ("--from=build ", "", "stage build"),
]


class RulesTest(unittest.TestCase):
    def test_what_is_right_is_let_through(self):
        self.assertEqual(list(findings(GOOD, REPOSITORY)), [])

    def test_every_mistake_is_found(self):
        for before, after, word in MISTAKES:
            with self.subTest(before=before, after=after):
                self.assertEqual(GOOD.count(before), 1)
                text = GOOD.replace(before, after)
                self.assertIn(word, " ".join(findings(text, REPOSITORY)))


class DockerfileTest(unittest.TestCase):
    def test_keep_the_rules(self):
        self.assertTrue(DOCKERFILES)
        for file in DOCKERFILES:
            with self.subTest(file.name):
                self.assertEqual(list(findings(file.read_text(), REPOSITORY)), [])

    def test_the_image_for_gpus_has_what_nccl_needs_for_infiniband(self):
        """NCCL loads it by its name, so no linker misses it: without it TCP is taken in silence."""
        text = (REPOSITORY / "docker" / "runtime-cuda.Dockerfile").read_text()
        for part in ("ibverbs-providers", "/usr/lib/x86_64-linux-gnu/libibverbs=",
                     "/etc/libibverbs.d="):
            self.assertIn(part, text)

    def test_share_the_layers_with_the_tools(self):
        """The same instructions, so that the longest step of all is done once."""
        tools = set()
        for file in DOCKERFILES:
            base, name, instructions = stages(parse(file.read_text()))[0]
            self.assertEqual(name, "tools")
            tools.add((base, *((each.word, each.rest) for each in instructions)))
        self.assertEqual(len(tools), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
