"""A checkpoint read by Keras: the code in docs/reference/checkpoints.md, run as it stands there."""

import unittest

from checkpoint_loading import LoadingTest, code_of, has, test_split


@unittest.skipUnless(has("keras", "safetensors", "numpy"), "keras or safetensors is not installed")
class Keras(LoadingTest):
    def test_recognises_what_the_trainer_did(self):
        import keras
        import numpy
        import safetensors.numpy
        scope = {"keras": keras, "safetensors": safetensors}
        exec(code_of("keras", self.tensors), scope)
        images, labels = test_split()
        inputs = numpy.frombuffer(images, numpy.uint8).reshape(-1, 28, 28, 1) / numpy.float32(255)
        found = scope["model"].predict(inputs, verbose=0).argmax(1)
        self.assert_same_hits(int((found == numpy.frombuffer(labels, numpy.uint8)).sum()))


if __name__ == "__main__":
    unittest.main()
