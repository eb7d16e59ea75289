#include "tests/bench/allreduce/world.h"

#include <unistd.h>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/check.h"

namespace lockstep::bench {
namespace {

std::vector<std::vector<UniqueFd>> Connect(int world_size) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  LOCKSTEP_CHECK(::bind(listener.get(), generic, size) == 0, "bind");
  LOCKSTEP_CHECK(::listen(listener.get(), SOMAXCONN) == 0, "listen");
  LOCKSTEP_CHECK(::getsockname(listener.get(), generic, &size) == 0, "getsockname");
  const auto world = static_cast<std::size_t>(world_size);
  std::vector<std::vector<UniqueFd>> links(world);
  for (auto& row : links) {
    row.resize(world);
  }
  for (std::size_t i = 0; i < world; ++i) {
    for (std::size_t j = i + 1; j < world; ++j) {
      links[i][j] = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
      LOCKSTEP_CHECK(::connect(links[i][j].get(), generic, size) == 0, "connect");
      links[j][i] = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    }
  }
  return links;
}

}  // namespace

runtime::CommunicatorOptions ForkWorld(int world_size, bool allow_shared_memory) {
  auto links = Connect(world_size);
  int rank = 0;
  for (int child = 1; child < world_size; ++child) {
    if (::fork() == 0) {
      rank = child;
      break;
    }
  }
  runtime::CommunicatorOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.links = std::move(links[static_cast<std::size_t>(rank)]);
  options.host_ids.resize(static_cast<std::size_t>(world_size), "this-host");
  options.allow_shared_memory = allow_shared_memory;
  return options;
}

int AwaitOthers(int world_size) {
  int code = 0;
  for (int child = 1; child < world_size; ++child) {
    int status = 0;
    ::wait(&status);
    code = code != 0 ? code : WEXITSTATUS(status);
  }
  return code;
}

}  // namespace lockstep::bench
