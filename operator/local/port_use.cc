#include "operator/local/port_use.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"
#include "common/process/process_stat.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kTableBytesMax = 8 << 20;  // some 50,000 sockets; of more, the first are seen
constexpr std::size_t kNameBytesMax = 64;        // the kernel keeps 15 letters
constexpr std::size_t kSocketsMax = 4;       // whose processes are looked for: one pass for each
constexpr std::string_view kListens = "0A";  // TCP_LISTEN

// As servers do: connections of an earlier run in TIME_WAIT do not make a port taken. Binding alone
// would succeed beside a socket that allowed reuse and does not listen yet.
Status ListenOn(int family, const sockaddr* where, socklen_t length) {
  const UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return SystemError(errno, "socket");
  }
  const int reuse = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const int only_v6 = 0;
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  if (::bind(socket.get(), where, length) != 0 || ::listen(socket.get(), 1) != 0) {
    return errno == EADDRINUSE ? Error(ErrorCode::kAlreadyExists, "the port is taken")
                               : SystemError(errno, "listening");
  }
  return OkStatus();
}

Status ListenAt(const in_addr& address, int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  where.sin_addr = address;
  return ListenOn(AF_INET, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}

Status ListenEverywhere(int port) {
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_port = htons(static_cast<uint16_t>(port));
  Status listened = ListenOn(AF_INET6, reinterpret_cast<const sockaddr*>(&both), sizeof both);
  if (listened.ok() || listened.error().code() == ErrorCode::kAlreadyExists) {
    return listened;
  }
  return ListenAt(in_addr{}, port);  // a machine without IPv6
}

bool IsAll(std::string_view address) {
  return address.find_first_not_of('0') == std::string_view::npos;
}

// As /proc/net/tcp has it: the address as the machine's own number.
std::string HexOf(const in_addr& address) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08X", address.s_addr);
  return text.data();
}

// Of a socket that listens at an IPv4 address of IPv6's, the last eight digits are that address.
bool KeepsFrom(const SocketEntry& socket, const ListenPlace& place, const std::string& hex) {
  return socket.port == place.port &&
         (place.is_everywhere || IsAll(socket.address) || socket.address.ends_with(hex));
}

bool HoldsSocket(pid_t pid, const std::string& link) {
  std::error_code error;
  const std::string descriptors = "/proc/" + std::to_string(pid) + "/fd";
  for (auto at = std::filesystem::directory_iterator(descriptors, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(at->path(), gone) == link && !gone) {
      return true;
    }
  }
  return false;
}

std::string NameOf(pid_t pid) {
  const auto name = ReadFile("/proc/" + std::to_string(pid) + "/comm", kNameBytesMax);
  const std::string text = name.ok() ? name->substr(0, name->find('\n')) : "";
  return "process " + std::to_string(pid) + (text.empty() ? "" : " (" + text + ")");
}

template <typename Number>
bool Parse(std::string_view text, int base, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<SocketEntry> ParseSockets(std::string_view table) {
  std::vector<SocketEntry> sockets;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    // "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 ..."
    std::string number, own, other, state, queues, timer, retries, user, timeout, inode;
    words >> number >> own >> other >> state >> queues >> timer >> retries >> user >> timeout >>
        inode;
    const std::size_t colon = own.find(':');
    SocketEntry socket;
    if (!words || colon == std::string::npos ||
        !Parse(std::string_view(own).substr(colon + 1), 16, &socket.port) ||
        !Parse(inode, 10, &socket.inode) || socket.inode == 0) {
      continue;
    }
    socket.address = own.substr(0, colon);
    socket.listens = state == kListens;
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

std::string NameHolder(const ListenPlace& place) {
  in_addr address{};
  ::inet_pton(AF_INET, place.address.c_str(), &address);
  std::vector<SocketEntry> holding;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = ReadFile(table, kTableBytesMax);
    for (SocketEntry& socket : ParseSockets(text.ok() ? *text : "")) {
      if (KeepsFrom(socket, place, HexOf(address))) {
        holding.push_back(std::move(socket));
      }
    }
  }
  std::stable_partition(
      holding.begin(), holding.end(), [](const SocketEntry& socket) { return socket.listens; });
  holding.resize(std::min(holding.size(), kSocketsMax));
  const std::vector<ProcessStat> processes = ReadProcessStats();
  for (const SocketEntry& socket : holding) {
    const std::string link = "socket:[" + std::to_string(socket.inode) + "]";
    for (const ProcessStat& process : processes) {
      if (HoldsSocket(process.pid, link)) {
        return NameOf(process.pid);
      }
    }
  }
  return "";
}

Status CheckFree(const ListenPlace& place) {
  in_addr address{};
  if (::inet_pton(AF_INET, place.address.c_str(), &address) != 1) {
    return Error(ErrorCode::kInvalidArgument,
                 "\"" + place.address + "\" is not a numeric IPv4 address");
  }
  Status listened =
      place.is_everywhere ? ListenEverywhere(place.port) : ListenAt(address, place.port);
  if (listened.ok() || listened.error().code() != ErrorCode::kAlreadyExists) {
    return listened;
  }
  const std::string holder = NameHolder(place);
  return Error(
      ErrorCode::kAlreadyExists,
      place.address + ":" + std::to_string(place.port) + " is in use" +
          (holder.empty() ? " by a process that lockstep cannot identify, such as another user's"
                          : " by " + holder));
}

}  // namespace lockstep::control
