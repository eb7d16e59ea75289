#pragma once

#include <dlfcn.h>

namespace lockstep::runtime::nccl {

// A function of the driver's, which whoever calls NCCL has loaded; null: it has not.
template <typename Function>
Function OfDriver(const char* name) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(driver, name));
}

}  // namespace lockstep::runtime::nccl
