#include "trainer-runtime/collectives/nccl/testing/fake_nccl_world.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include <sys/mman.h>

extern "C" int ncclGetVersion(int* version);

namespace lockstep::runtime {
namespace {

struct Identity {
  char magic[8];  // "FAKENCCL"
  int32_t pid;
  int32_t fd;
};

static_assert(sizeof(Identity) <= sizeof(nccl::UniqueId));

// There are two cores here for all ranks.
void Nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

bool FakeNcclWorld::MakeIdentity(nccl::UniqueId* id) {
  const int fd = ::memfd_create("fake-nccl", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, sizeof(Memory)) != 0) {
    return false;
  }
  const Identity identity{{'F', 'A', 'K', 'E', 'N', 'C', 'C', 'L'}, ::getpid(), fd};
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &identity, sizeof(identity));
  return true;
}

std::unique_ptr<FakeNcclWorld> FakeNcclWorld::Open(const nccl::UniqueId& id) {
  Identity identity{};
  std::memcpy(&identity, &id, sizeof(identity));
  if (std::memcmp(identity.magic, "FAKENCCL", sizeof(identity.magic)) != 0) {
    return nullptr;
  }
  const std::string path =
      "/proc/" + std::to_string(identity.pid) + "/fd/" + std::to_string(identity.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  void* const memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return std::unique_ptr<FakeNcclWorld>(
      memory == MAP_FAILED ? nullptr : new FakeNcclWorld(static_cast<Memory*>(memory)));
}

FakeNcclWorld::~FakeNcclWorld() {
  ::munmap(memory_, sizeof(Memory));
}

bool FakeNcclWorld::Meet(int rank, int world_size, const std::atomic<bool>& stop) {
  int version = 0;
  ncclGetVersion(&version);
  memory_->seats[rank].has_come.store(version);
  for (int peer = 0; peer < world_size; ++peer) {
    while (memory_->seats[peer].has_come.load() == 0) {
      if (stop.load()) {
        return false;
      }
      Nap();
    }
  }
  return true;
}

bool FakeNcclWorld::AreAllOf(int version, int world_size) const {
  return std::all_of(memory_->seats, memory_->seats + world_size, [version](const Seat& seat) {
    return seat.has_come.load() == version;
  });
}

bool FakeNcclWorld::Await(int world_size,
                          std::atomic<uint64_t> Seat::*progress,
                          uint64_t target,
                          const std::atomic<bool>& stop) {
  for (int peer = 0; peer < world_size; ++peer) {
    while ((memory_->seats[peer].*progress).load() < target) {
      if (stop.load()) {
        return false;
      }
      Nap();
    }
  }
  return true;
}

template <typename Number>
bool FakeNcclWorld::Sum(const Part& part, int world_size, const std::atomic<bool>& stop) {
  constexpr std::size_t kChunkCount = kChunkBytes / sizeof(Number);
  auto* const data = static_cast<Number*>(part.data);
  for (std::size_t done = 0; done < part.count; done += kChunkCount) {
    const std::size_t size = std::min(kChunkCount, part.count - done);
    // Everybody has taken the chunk before.
    if (!Await(world_size, &Seat::taken, chunk_count_, stop)) {
      return false;
    }
    std::memcpy(memory_->chunks[part.rank], data + done, size * sizeof(Number));
    ++chunk_count_;
    memory_->seats[part.rank].laid_out.store(chunk_count_);
    if (!Await(world_size, &Seat::laid_out, chunk_count_, stop)) {
      return false;
    }
    for (std::size_t i = 0; i < size; ++i) {
      Number sum = 0;
      for (int peer = 0; peer < world_size; ++peer) {
        const Number term = reinterpret_cast<const Number*>(memory_->chunks[peer])[i];
        sum = peer == 0 ? term : sum + term;
      }
      data[done + i] = sum;
    }
    memory_->seats[part.rank].taken.store(chunk_count_);
  }
  return true;
}

template bool FakeNcclWorld::Sum<float>(const Part&, int, const std::atomic<bool>&);
template bool FakeNcclWorld::Sum<double>(const Part&, int, const std::atomic<bool>&);

}  // namespace lockstep::runtime
