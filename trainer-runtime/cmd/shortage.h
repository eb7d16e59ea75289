#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "common/base/result.h"

namespace lockstep::runtime {

// Does `work`, which returns a Result. What the machine refuses it on the way, at whatever line, is
// its error: kIo, with the machine's words; a later try may find what was missing. Thread:
// any.
template <typename Work>
auto ReportShortage(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kIo, "this machine has no memory left for lockstep-runtime");
  } catch (const std::system_error& error) {
    return Error(ErrorCode::kIo,
                 std::string("this machine cannot start another thread for lockstep-runtime: ") +
                     error.what());
  } catch (const std::runtime_error& error) {  // a library's: no file descriptor for Asio
    return Error(ErrorCode::kIo, error.what());
  }
}

}  // namespace lockstep::runtime
