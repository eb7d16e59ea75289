#pragma once

#include <string>
#include <utility>

#include "common/base/result.h"

namespace lockstep::runtime {

// A shared library that was loaded while the program runs. It stays loaded: a library whose threads
// may still run cannot be unloaded, and loading it again costs nothing.
class SharedObject {
 public:
  // Errors: kNotFound, in the loader's own words.
  static Result<SharedObject> Open(const std::string& name);

  // The file that the loader found.
  const std::string& path() const { return path_; }

  bool Has(const char* symbol) const;

  // Sets `function` to the symbol. Returns whether it is there.
  template <typename Function>
  bool Find(const char* symbol, Function* function) const {
    *function = reinterpret_cast<Function>(Address(symbol));
    return *function != nullptr;
  }

 private:
  SharedObject(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* Address(const char* symbol) const;

  void* handle_;
  std::string path_;
};

}  // namespace lockstep::runtime
