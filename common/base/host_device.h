#pragma once

// In front of a function that CPUs and GPUs both run: one source of its arithmetic.
#ifdef __CUDACC__
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif
