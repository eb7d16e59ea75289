// A plug-in that needs a library which is not installed (see CMakeLists.txt).
extern "C" int LockstepAbsentLibraryCall();

extern "C" __attribute__((visibility("default"))) int LockstepEnginePlugin() {
  return LockstepAbsentLibraryCall();
}
