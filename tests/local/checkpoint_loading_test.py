"""A checkpoint read by PyTorch: the code in docs/reference/checkpoints.md, run as it stands."""

import json
import unittest

from checkpoint_loading import LoadingTest, code_of, has, test_split


@unittest.skipUnless(has("torch"), "python3-torch is not installed")
class PyTorch(LoadingTest):
    def hits_of(self, model):
        import torch
        images, labels = test_split()
        inputs = torch.frombuffer(bytearray(images), dtype=torch.uint8).float() / 255
        with torch.no_grad():
            found = model(inputs.reshape(-1, 1, 28, 28)).argmax(1)
        return (found == torch.frombuffer(bytearray(labels), dtype=torch.uint8)).sum().item()

    def test_recognises_what_the_trainer_did(self):
        import torch
        scope = {"torch": torch, "nn": torch.nn, "json": json}
        exec(code_of("pytorch", self.tensors), scope)
        self.assert_same_hits(self.hits_of(scope["model"]))
        # What the document warns of: rows in PyTorch's order look right and recognise nothing.
        scope["model"][4].weight.data = scope["saved"]["layer3/kernel"].T
        self.assertLess(self.hits_of(scope["model"]), 300)


if __name__ == "__main__":
    unittest.main()
