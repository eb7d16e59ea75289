#pragma once

#include <exception>
#include <string>

#include <ATen/ATen.h>

#include "common/base/result.h"

namespace lockstep::runtime {

// "LibTorch 1.13.1, OpenBLAS ..., 1 thread".
std::string DescribeTorch();

// One rank uses one core: more ranks, not more threads, use the others, and the order of additions
// stays the same. OpenMP keeps its number of threads for each calling thread by itself, and engines
// are made on one thread and used on another, so every thread that comes by is told.
void UseOneThread();

// Runs `call`, which returns a Result or Status, and turns what LibTorch throws into an Error.
template <typename Call>
auto WithTorch(const Call& call) -> decltype(call()) {
  UseOneThread();
  try {
    return call();
  } catch (const c10::Error& error) {
    return Error(ErrorCode::kInternal, std::string("LibTorch: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, std::string("LibTorch: ") + error.what());
  }
}

}  // namespace lockstep::runtime
