#include "operator/kubeclient/transport/make_transport.h"

#include <array>
#include <dlfcn.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "operator/kubeclient/transport/beast_transport.h"
#include "operator/kubeclient/transport/transport_plugin.h"

namespace lockstep::control {
namespace {

constexpr const char* kCpprestFile = "liblockstep-transport-cpprest.so";

// Where this program is; "." when that cannot be told.
std::string ExecutableDirectory() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view text(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t slash = text.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(text.substr(0, slash));
}

std::string FindFile() {
  const std::string beside = ExecutableDirectory() + "/" + kCpprestFile;
  return ::access(beside.c_str(), F_OK) == 0
             ? beside
             : ExecutableDirectory() + "/../lib/lockstep/" + kCpprestFile;
}

Result<std::unique_ptr<Transport>> LoadCpprest(TransportOptions options) {
  const std::string path = FindFile();
  // Everything is resolved now, so that what is missing is an error here. Never unloaded: objects
  // of its classes may live as long as the program.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return Error(ErrorCode::kNotFound, reason != nullptr ? reason : path + " cannot be loaded");
  }
  const auto stamp =
      reinterpret_cast<decltype(&LockstepTransportStamp)>(::dlsym(library, kTransportStampEntry));
  const auto make =
      reinterpret_cast<decltype(&LockstepMakeTransport)>(::dlsym(library, kMakeTransportEntry));
  const bool is_whole = stamp != nullptr && make != nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CheckTransportStamp(path, is_whole ? stamp() : "none"));
  Status status = OkStatus();
  std::unique_ptr<Transport> made;
  make(&options, &status, &made);
  LOCKSTEP_RETURN_IF_ERROR(status);
  return made;
}

}  // namespace

Status CheckTransportStamp(const std::string& path, const std::string& stamp) {
  if (stamp == TransportStamp()) {
    return OkStatus();
  }
  return Error(ErrorCode::kMismatch,
               path + " belongs to a different build: " + stamp + " found, expected " +
                   TransportStamp() + "; install the operator and this library from one release");
}

Result<std::unique_ptr<Transport>> MakeTransport(TransportKind kind, TransportOptions options) {
  return kind == TransportKind::kCpprest
             ? LoadCpprest(std::move(options))
             : Result<std::unique_ptr<Transport>>(MakeBeastTransport(std::move(options)));
}

}  // namespace lockstep::control
