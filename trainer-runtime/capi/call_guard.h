#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>

#include "trainer-runtime/capi/api_error.h"

namespace lockstep::runtime {

// No exception leaves the library: the only one that its parts do not turn into errors is that of
// memory that is not there.
template <typename Work>
lockstep_status Guarded(const Work& work) noexcept {
  ForgetSentence();
  try {
    return Tell(work());
  } catch (const std::bad_alloc&) {
    return Tell({LOCKSTEP_ERROR_SYSTEM, "out of memory", 0});
  } catch (const std::exception& error) {
    return Tell({LOCKSTEP_ERROR_INTERNAL, error.what(), 0});
  }
}

// A structure of the program's, as far as both sides know it; empty where it is too small.
template <typename Structure>
std::optional<Structure> Read(const Structure* given) {
  if (given == nullptr || given->struct_size < sizeof(Structure)) {
    return std::nullopt;
  }
  return *given;
}

// Fills in what follows `struct_size`. Precondition: Read(given) has a value.
template <typename Structure>
void Write(Structure filled, Structure* given) {
  filled.struct_size = given->struct_size;
  *given = filled;
}

inline std::string SizeProblem(const char* name) {
  return std::string(name) + " is null, or its struct_size is not the size of the struct";
}

}  // namespace lockstep::runtime
