"""Runs programs that were written for Horovod on the collectives of this package, without Horovod.
Replace `import horovod.torch as hvd` by `import lockstep.horovod.torch as hvd`. The same works for
`horovod.tensorflow`, `horovod.tensorflow.keras` and `horovod.keras`."""
