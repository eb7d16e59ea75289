// Which release a double of NCCL stands for. Compiled for each of them.

extern "C" int ncclGetVersion(int* version) {
  *version = LOCKSTEP_FAKE_NCCL_VERSION;
  return 0;
}
