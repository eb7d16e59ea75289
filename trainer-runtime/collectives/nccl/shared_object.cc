#include "trainer-runtime/collectives/nccl/shared_object.h"

#include <dlfcn.h>
#include <link.h>

namespace lockstep::runtime {

Result<SharedObject> SharedObject::Open(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return Error(ErrorCode::kNotFound, reason != nullptr ? reason : name + " cannot be loaded");
  }
  const link_map* entry = nullptr;
  const bool is_known = ::dlinfo(handle, RTLD_DI_LINKMAP, &entry) == 0 && entry != nullptr;
  return SharedObject(handle, is_known ? entry->l_name : name);
}

bool SharedObject::Has(const char* symbol) const {
  return Address(symbol) != nullptr;
}

void* SharedObject::Address(const char* symbol) const {
  return ::dlsym(handle_, symbol);
}

}  // namespace lockstep::runtime
