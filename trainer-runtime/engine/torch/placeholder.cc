// Nothing: stands for a library that LibTorch names and does not use (see CMakeLists.txt).
