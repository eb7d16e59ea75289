#pragma once

// Compiles the function that follows once for each of three x86-64 instruction sets; the loader
// picks the best that the CPU has. The binary stays usable on the oldest. Needs -O3 for the loops
// to become vector code. Left out under sanitizers, whose runtime is not up yet when the loader
// picks.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LOCKSTEP_VECTOR_CLONES
#endif
