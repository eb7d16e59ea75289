"""What a job cannot be made of, which is refused by name."""

import pathlib
import unittest

import torch

from lockstep.errors import InvalidArgument
from lockstep.torch import job
from lockstep.torch.job import Job, JobOptions
from lockstep.torch.sampler import Sampler


class Refusals(unittest.TestCase):
    def test_options_that_cannot_be_are_refused_by_name(self):
        for options, words in (
                ({"checkpoint_keep": 0},
                 "checkpoint_keep: 0 found, expected a whole number from 1"),
                ({"checkpoint_every": -3}, "checkpoint_every: -3 found"),
                ({"checkpoint_directory": 5}, "checkpoint_directory: 5 found, expected the path"),
                ({"checkpoint_directory": "s3://bucket/x"},
                 "checkpoint_directory: 's3://bucket/x' found, expected the path of a folder, "
                 "not a URL: mount the storage"),
                ({"checkpoint_directory": pathlib.Path("gs://bucket/x")},
                 "checkpoint_directory: PosixPath"),
                ({"plan": None}, "plan: None found, expected a string"),
                ({"checkpoint_every": "10"}, "checkpoint_every: '10' found"),
                ({"call_seconds": 0},
                 "call_seconds: 0 found, expected a number of seconds above 0")):
            with self.assertRaisesRegex(InvalidArgument, "^" + words):
                JobOptions(**options)

    def test_what_a_job_cannot_be_made_of_is_refused_by_name(self):
        job._has_finished = False  # another process
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        closures = torch.optim.LBFGS(model.parameters())
        for parts, words in (
                ({"model": [model, model]}, "model: list found, expected one torch.nn.Module; put"),
                ({"optimizer": [optimizer]}, "optimizer: list found, expected one torch.optim"),
                ({"optimizer": closures}, "optimizer: LBFGS found, whose step calls the model"),
                ({"extra": {"s": torch.cuda.amp.GradScaler(enabled=False)}},
                 r"extra: s is a GradScaler: pass it as Job\(scaler="),
                ({"scaler": 5}, "scaler: int found, expected a torch.cuda.amp.GradScaler")):
            with self.assertRaisesRegex(InvalidArgument, "^" + words):
                Job(**{"model": model, "optimizer": optimizer, "sampler": Sampler(8, 4), **parts})


if __name__ == "__main__":
    unittest.main()
