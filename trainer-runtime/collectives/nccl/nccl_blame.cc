#include "trainer-runtime/collectives/nccl/nccl_blame.h"

#include <algorithm>
#include <ifaddrs.h>
#include <set>
#include <utility>

#include <net/if.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "trainer-runtime/collectives/nccl/bounded_wait.h"

namespace lockstep::runtime {
namespace {

// Choice: a connection that its peer has closed is noticed within milliseconds, and recovery waits
// for nothing else.
constexpr std::chrono::milliseconds kNamingPatience{200};

constexpr int kInterfacesMax = 8;  // named in an error. Choice

std::string MebibytesText(uint64_t bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

std::string SharedMemoryText() {
  struct statvfs room = {};
  if (::statvfs("/dev/shm", &room) != 0) {
    return "there is no /dev/shm";
  }
  return "/dev/shm has " + MebibytesText(room.f_bavail * room.f_frsize) + " of " +
         MebibytesText(room.f_blocks * room.f_frsize) + " free";
}

std::string LockedMemoryText() {
  struct rlimit limit = {};
  const bool is_known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  if (is_known && limit.rlim_cur == RLIM_INFINITY) {
    return "this process may lock any amount of memory";
  }
  return "this process may lock " +
         (is_known ? std::to_string(limit.rlim_cur >> 10U) + " KiB"
                   : std::string("an unknown amount")) +
         " of memory";
}

// Those that are up and lead elsewhere.
std::string InterfacesText() {
  std::set<std::string> names;
  struct ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (const struct ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      const bool leads_out = (entry->ifa_flags & IFF_UP) != 0 &&
                             (entry->ifa_flags & IFF_LOOPBACK) == 0 && entry->ifa_addr != nullptr;
      if (leads_out && names.size() < kInterfacesMax) {
        names.insert(entry->ifa_name);
      }
    }
    ::freeifaddrs(list);
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return "network interfaces: " + (text.empty() ? std::string("only loopback") : text);
}

// What `health` says within `patience`; OkStatus: that all is well.
Status HearOf(const std::function<Status()>& health, Duration patience) {
  Status heard;
  const WaitLimits limits{Deadline::After(SteadyNow(), patience), [&] { return heard = health(); }};
  static_cast<void>(WaitUntil([]() -> Result<bool> { return false; }, limits));
  return heard;
}

}  // namespace

std::string DescribeSystem() {
  return "On this machine: " + SharedMemoryText() + "; " + LockedMemoryText() + "; " +
         InterfacesText() +
         ". Check the role's sharedMemory, the pod's right to lock memory (IPC_LOCK) and "
         "NCCL_SOCKET_IFNAME; with NCCL_DEBUG=INFO in the template's env, the log names the failed "
         "call";
}

Error WithBlame(const Error& met, const std::function<Status()>& health, Duration patience) {
  const bool is_of_system = met.code() == ErrorCode::kIo;
  if (!is_of_system && met.code() != ErrorCode::kPeerLost) {
    return met;
  }
  const Status heard =
      HearOf(health, is_of_system ? patience : std::min<Duration>(patience, kNamingPatience));
  if (heard.ok()) {
    return is_of_system
               ? Error(ErrorCode::kIo,
                       met.message() +
                           ". All ranks are alive, so a system call on this machine has failed. " +
                           DescribeSystem())
               : met;
  }
  const std::string& said = heard.error().message();
  const bool is_new = met.message().find(said) == std::string::npos;
  return Error(is_of_system ? heard.error().code() : met.code(),
               is_new ? met.message() + "; " + said : met.message());
}

}  // namespace lockstep::runtime
