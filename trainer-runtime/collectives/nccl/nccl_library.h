#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/collectives/nccl/nccl_api.h"
#include "trainer-runtime/collectives/nccl/shared_object.h"

namespace lockstep::runtime {

inline constexpr const char* kNcclLibrary = "libnccl.so.2";

// NCCL, found when the program runs: its functions, and what this one can do. What it can do is
// asked of its symbols, never of a version that was there when this program was built.
// Thread: any, as far as NCCL allows it for the same communicator.
class NcclLibrary {
 public:
  // Loads `name`, searched as the system's loader searches. Errors: kNotFound (it is not there, or
  // lacks what is needed: older than 2.14), kUnavailable (it refuses to say its version).
  static Result<std::shared_ptr<const NcclLibrary>> Open(const std::string& name = kNcclLibrary);

  int version() const { return version_; }

  const std::string& path() const { return object_.path(); }

  // "2.28.9".
  std::string VersionText() const;

  // What later releases brought and this one has: "split", "shrink", "revoke", ...
  std::vector<std::string> Features() const;

  // "NCCL 2.28.9 (/usr/lib/libnccl.so.2): split, shrink, revoke".
  std::string Describe() const;

  // NCCL's own words for `code`, and what it says of its last error; `comm` may be null.
  std::string Words(nccl::Result code, nccl::Comm* comm) const;

  // The functions, as nccl.h declares them.
  nccl::Result (*get_version)(int*) = nullptr;
  nccl::Result (*get_unique_id)(nccl::UniqueId*) = nullptr;
  nccl::Result (*comm_init_rank_config)(nccl::Comm**, int, nccl::UniqueId, int, nccl::Config*) =
      nullptr;
  nccl::Result (*comm_get_async_error)(nccl::Comm*, nccl::Result*) = nullptr;
  nccl::Result (*comm_abort)(nccl::Comm*) = nullptr;
  const char* (*get_error_string)(nccl::Result) = nullptr;
  const char* (*get_last_error)(nccl::Comm*) = nullptr;
  nccl::Result (*all_reduce)(const void*, void*, std::size_t, int, int, nccl::Comm*, nccl::Stream) =
      nullptr;
  nccl::Result (*group_start)() = nullptr;
  nccl::Result (*group_end)() = nullptr;
  nccl::Result (*comm_revoke)(nccl::Comm*, int) = nullptr;  // null before 2.28.7

 private:
  explicit NcclLibrary(SharedObject object) : object_(std::move(object)) {}

  Status FindFunctions();

  SharedObject object_;
  int version_ = 0;
};

// "2.28.9" of 22809, "2.7.8" of 2708. Source: NCCL_VERSION in nccl.h.
std::string FormatNcclVersion(int version);

}  // namespace lockstep::runtime
