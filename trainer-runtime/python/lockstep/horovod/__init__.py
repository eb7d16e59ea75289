"""Programs written for Horovod, on the collectives of this package and without Horovod: where such
a program says `import horovod.torch as hvd`, it says `import lockstep.horovod.torch as hvd`; and so
for `horovod.tensorflow`, `horovod.tensorflow.keras` and `horovod.keras`."""
