// Stands for LibTorch at link time; tests run without it.
extern "C" __attribute__((visibility("default"))) int LockstepAbsentLibraryCall() {
  return 0;
}
