// Joining without blocking, in the double of NCCL.

#include <chrono>
#include <thread>

#include "trainer-runtime/collectives/nccl/testing/fake_nccl_comm.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_driver.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_ends.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_fault.h"

extern "C" int ncclGetVersion(int* version);

namespace lockstep::runtime::nccl {
namespace {

// Sleeps, but not after `stop`.
void SleepUnlessStopped(int milliseconds, const std::atomic<bool>& stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!stop.load() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void JoinOthers(Comm* comm, const UniqueId& id) {
  if (const auto slow = OrderedFault("slow-init", comm->rank, 1)) {
    SleepUnlessStopped(slow->milliseconds, comm->is_stopped);
  }
  if (OrderedFault("fail-init", comm->rank, 1)) {
    comm->Fail(kUnhandledCudaError, "ordered: the device does not join");
    return;
  }
  comm->world = FakeNcclWorld::Open(id);
  if (comm->world == nullptr) {
    comm->Fail(kRemoteError, "the identity's owner is gone");
    return;
  }
  if (!comm->world->Meet(comm->rank, comm->world_size, comm->is_stopped)) {
    return;
  }
  int version = 0;
  ncclGetVersion(&version);
  if (comm->world->AreAllOf(version, comm->world_size)) {
    comm->state.store(kSuccess);
  } else {
    comm->Fail(kInvalidUsage, "Mismatched NCCL version detected");
  }
}

// Of the calling thread.
void* CurrentContext() {
  const auto context_of_thread = OfDriver<int (*)(void**)>("cuCtxGetCurrent");
  void* context = nullptr;
  if (context_of_thread != nullptr) {
    context_of_thread(&context);
  }
  return context;
}

}  // namespace
}  // namespace lockstep::runtime::nccl

using namespace lockstep::runtime;  // NOLINT: the function below belongs to no namespace

extern "C" int ncclCommInitRankConfig(
    nccl::Comm** made, int world_size, nccl::UniqueId id, int rank, nccl::Config* config) {
  const nccl::Config expected;
  if (config->magic != expected.magic || config->size < sizeof(expected) || config->blocking != 0 ||
      world_size > FakeNcclWorld::kRanksMax) {
    return nccl::kInvalidArgument;
  }
  if (const auto block = OrderedFault("block-init", rank, 1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(block->milliseconds));
  }
  auto* const comm = new nccl::Comm;
  comm->rank = rank;
  comm->world_size = world_size;
  comm->context = nccl::CurrentContext();
  nccl::RememberEnd(comm, id);
  *made = comm;
  comm->joining = std::thread([comm, id] { nccl::JoinOthers(comm, id); });
  return nccl::kInProgress;
}
