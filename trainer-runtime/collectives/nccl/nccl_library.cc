#include "trainer-runtime/collectives/nccl/nccl_library.h"

#include <utility>

namespace lockstep::runtime {
namespace {

struct Feature {
  const char* name;
  const char* symbol;
};

// What a release brought, by the symbol that it brought with it. Source: NCCL's release notes.
constexpr Feature kFeatures[] = {
    {"split", "ncclCommSplit"},            // 2.18
    {"shrink", "ncclCommShrink"},          // 2.27
    {"window", "ncclCommWindowRegister"},  // 2.27
    {"revoke", "ncclCommRevoke"},          // 2.28.7
    {"grow", "ncclCommGrow"},              // 2.29.2
    {"suspend", "ncclCommSuspend"},        // 2.29.7
};

}  // namespace

std::string FormatNcclVersion(int version) {
  const int major_unit = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major_unit) + "." + std::to_string(version % major_unit / 100) +
         "." + std::to_string(version % 100);
}

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::Open(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(SharedObject object, SharedObject::Open(name));
  const std::shared_ptr<NcclLibrary> library(new NcclLibrary(std::move(object)));
  LOCKSTEP_RETURN_IF_ERROR(library->FindFunctions());
  return std::shared_ptr<const NcclLibrary>(library);
}

Status NcclLibrary::FindFunctions() {
  if (!object_.Find("ncclGetVersion", &get_version)) {
    return Error(ErrorCode::kNotFound, path() + " is not NCCL: it has no ncclGetVersion");
  }
  if (const nccl::Result code = get_version(&version_); code != nccl::kSuccess) {
    return Error(
        ErrorCode::kUnavailable,
        path() + " does not report its version; its result code is " + std::to_string(code));
  }
  object_.Find("ncclCommRevoke", &comm_revoke);
  const bool has_all = object_.Find("ncclGetUniqueId", &get_unique_id) &&
                       object_.Find("ncclCommInitRankConfig", &comm_init_rank_config) &&
                       object_.Find("ncclCommGetAsyncError", &comm_get_async_error) &&
                       object_.Find("ncclCommAbort", &comm_abort) &&
                       object_.Find("ncclGetErrorString", &get_error_string) &&
                       object_.Find("ncclGetLastError", &get_last_error) &&
                       object_.Find("ncclAllReduce", &all_reduce) &&
                       object_.Find("ncclGroupStart", &group_start) &&
                       object_.Find("ncclGroupEnd", &group_end);
  if (!has_all) {
    return Error(ErrorCode::kNotFound,
                 path() + " is NCCL " + VersionText() +
                     ", which cannot join ranks without blocking; expected 2.14 or newer");
  }
  return OkStatus();
}

std::string NcclLibrary::VersionText() const {
  return FormatNcclVersion(version_);
}

std::vector<std::string> NcclLibrary::Features() const {
  std::vector<std::string> names;
  for (const Feature& feature : kFeatures) {
    if (object_.Has(feature.symbol)) {
      names.emplace_back(feature.name);
    }
  }
  return names;
}

std::string NcclLibrary::Describe() const {
  std::string text = "NCCL " + VersionText() + " (" + path() + ")";
  const char* before = ": ";
  for (const std::string& name : Features()) {
    text += before + name;
    before = ", ";
  }
  return text;
}

std::string NcclLibrary::Words(nccl::Result code, nccl::Comm* comm) const {
  std::string text = get_error_string(code);
  const char* const last = get_last_error(comm);
  if (last != nullptr && *last != '\0') {
    text += std::string(" (") + last + ")";
  }
  return text;
}

}  // namespace lockstep::runtime
