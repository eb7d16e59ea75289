#include "trainer-runtime/collectives/testing_world.h"

#include <csignal>
#include <cstdio>
#include <thread>
#include <unistd.h>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/check.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

namespace lockstep::runtime {
namespace {

constexpr int kExitNoCommunicator = 99;

std::pair<UniqueFd, UniqueFd> ConnectedPair(int listener, const sockaddr_in& address) {
  UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int connected =
      ::connect(near.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  LOCKSTEP_CHECK(connected == 0, "connect over loopback");
  UniqueFd far(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  LOCKSTEP_CHECK(far.is_open(), "accept over loopback");
  return {std::move(near), std::move(far)};
}

}  // namespace

std::string BackendText(Backend backend) {
  switch (backend) {
    case Backend::kSharedMemory:
      return "SharedMemory";
    case Backend::kTcp:
      return "Tcp";
    case Backend::kHierarchical:
      return "Hierarchical";
  }
  return "";
}

LinkMatrix MakeLinks(int world_size) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  LOCKSTEP_CHECK(::bind(listener.get(), generic, size) == 0, "bind to a free port");
  LOCKSTEP_CHECK(::listen(listener.get(), SOMAXCONN) == 0, "listen");
  LOCKSTEP_CHECK(::getsockname(listener.get(), generic, &size) == 0, "getsockname");
  const auto count = static_cast<std::size_t>(world_size);
  LinkMatrix links(count);
  for (auto& row : links) {
    row.resize(count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      std::tie(links[i][j], links[j][i]) = ConnectedPair(listener.get(), address);
    }
  }
  return links;
}

CommunicatorOptions OptionsOf(int rank, Backend backend, LinkMatrix& links) {
  CommunicatorOptions options;
  options.rank = rank;
  options.world_size = static_cast<int>(links.size());
  options.epoch = Epoch(3);
  options.plan_hash = 42;
  options.links = std::move(links[static_cast<std::size_t>(rank)]);
  options.host_ids.resize(links.size(), "this-host");
  options.allow_shared_memory = backend != Backend::kTcp;
  for (std::size_t i = 0; i < links.size() && backend == Backend::kHierarchical; ++i) {
    options.host_ids[i] = "host-" + std::to_string((i + 1) / 2);
  }
  return options;
}

Deadline Soon() {
  return Deadline::After(SteadyNow(), std::chrono::seconds(60));
}

void RunThreads(int world_size, Backend backend, const RankBody& body) {
  LinkMatrix links = MakeLinks(world_size);
  std::vector<std::jthread> threads;
  const bool is_hierarchical = backend == Backend::kHierarchical && world_size > 2;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back(
        [&body, is_hierarchical, options = OptionsOf(rank, backend, links)]() mutable {
          auto communicator = MakeCommunicator(std::move(options), Soon());
          ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
          ASSERT_EQ((*communicator)->BackendName() == std::string("hierarchical"), is_hierarchical);
          body(**communicator);
        });
  }
}

void RunLenders(int world_size, Backend backend, std::size_t byte_count, const LenderBody& body) {
  LinkMatrix links = MakeLinks(world_size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, options = OptionsOf(rank, backend, links)]() mutable {
      const auto memory = SharedSegment::CreateForReaders(byte_count);
      ASSERT_TRUE(memory.ok()) << memory.error().ToString();
      options.lent = &*memory;
      auto communicator = MakeCommunicator(std::move(options), Soon());
      ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
      body(**communicator, {memory->data(), byte_count});
    });
  }
}

ProcessWorld::ProcessWorld(int world_size, Backend backend, const ChildBody& body) {
  LinkMatrix links = MakeLinks(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t pid = ::fork();
    LOCKSTEP_CHECK(pid >= 0, "fork");
    if (pid > 0) {
      pids_.push_back(pid);
      continue;
    }
    CommunicatorOptions options = OptionsOf(rank, backend, links);
    links.clear();  // the other ranks' ends must not live on here
    auto communicator = MakeCommunicator(std::move(options), Soon());
    int code = kExitNoCommunicator;
    if (communicator.ok()) {
      code = body(**communicator);
    } else {
      std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str());
    }
    ::_exit(code);
  }
}

ProcessWorld::~ProcessWorld() {
  for (const pid_t pid : pids_) {
    if (pid != 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
}

void ProcessWorld::Signal(int rank, int signal) const {
  LOCKSTEP_CHECK(::kill(pids_[static_cast<std::size_t>(rank)], signal) == 0, "kill");
}

int ProcessWorld::Wait(int rank) {
  int status = 0;
  pid_t& pid = pids_[static_cast<std::size_t>(rank)];
  LOCKSTEP_CHECK(::waitpid(pid, &status, 0) == pid, "waitpid");
  pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace lockstep::runtime
