// libnccl.so.2 as tests need it: NCCL's functions, as of 2.14, over memory that processes of one
// host share, with the driver's double for a device. What later releases brought is in files of
// their own, so that a double of an older release lacks it. Faults: fake_nccl_fault.h.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "trainer-runtime/collectives/nccl/testing/fake_nccl_comm.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_driver.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_ends.h"
#include "trainer-runtime/collectives/nccl/testing/fake_nccl_fault.h"

namespace lockstep::runtime::nccl {
namespace {

thread_local std::string last_error;

Result FailCall(Result code, const char* words) {
  last_error = words;
  return code;
}

using LaunchHostFunc = int (*)(void*, void (*)(void*), void*);
using StreamContext = int (*)(void*, void**);

// Whether the stream is on the device of the communicator's end.
bool IsOnDeviceOf(const Comm& comm, void* stream) {
  const auto context_of = OfDriver<StreamContext>("cuStreamGetCtx");
  void* context = nullptr;
  return context_of != nullptr && context_of(stream, &context) == 0 && context == comm.context;
}

struct Kernel {
  Comm* comm;
  void* data;
  std::size_t count;
  int type;
  int call;
  void* stream;
};

// What the calling thread has called since it began a group.
struct OpenGroup {
  int depth = 0;
  bool is_refused = false;
  bool has_no_way = false;
  std::vector<Kernel> kernels;
};

thread_local OpenGroup open_group;

void RunKernel(void* argument) {
  const std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(argument));
  Comm* const comm = kernel->comm;
  if (OrderedFault("die", comm->rank, kernel->call)) {
    ::kill(::getpid(), SIGKILL);
  }
  if (OrderedFault("hang", comm->rank, kernel->call)) {
    while (!comm->is_stopped.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (OrderedFault("async-error", comm->rank, kernel->call)) {
    comm->Fail(kRemoteError, "ordered: the connection to a peer broke");
  } else if (OrderedFault("system-error", comm->rank, kernel->call)) {
    comm->Fail(kSystemError, "ordered: no space left in /dev/shm");
  } else if (!comm->is_stopped.load()) {
    const FakeNcclWorld::Part part{comm->rank, kernel->data, kernel->count};
    if (kernel->type == kFloat64) {
      comm->world->Sum<double>(part, comm->world_size, comm->is_stopped);
    } else {
      comm->world->Sum<float>(part, comm->world_size, comm->is_stopped);
    }
  }
  const std::lock_guard lock(comm->mutex);
  --comm->kernel_count;
  comm->news.notify_all();
}

// Whether the group has as many sums of each device of this process: the real one may hang where it
// has not, as other processes wait for the one that comes later.
bool IsWhole(const OpenGroup& group) {
  const auto sums_of = [&group](const Comm* comm) {
    return std::count_if(group.kernels.begin(), group.kernels.end(), [comm](const Kernel& kernel) {
      return kernel.comm == comm;
    });
  };
  return std::all_of(group.kernels.begin(), group.kernels.end(), [&](const Kernel& kernel) {
    const std::vector<const Comm*> ends = EndsBeside(kernel.comm);
    return std::all_of(ends.begin(), ends.end(), [&](const Comm* end) {
      return sums_of(end) == sums_of(kernel.comm);
    });
  });
}

int Launch(const Kernel& kernel) {
  {
    const std::lock_guard lock(kernel.comm->mutex);
    ++kernel.comm->kernel_count;
  }
  return OfDriver<LaunchHostFunc>("cuLaunchHostFunc")(kernel.stream, RunKernel, new Kernel(kernel));
}

}  // namespace
}  // namespace lockstep::runtime::nccl

using namespace lockstep::runtime;  // NOLINT: the functions below belong to no namespace

extern "C" {

int ncclGetUniqueId(nccl::UniqueId* id) {
  if (OrderedFault("no-identity", 0, 1) || !FakeNcclWorld::MakeIdentity(id)) {
    return nccl::FailCall(nccl::kSystemError, "ordered: no network interface");
  }
  return nccl::kSuccess;
}

const char* ncclGetErrorString(int code) {
  switch (code) {
    case nccl::kSuccess:
      return "no error";
    case nccl::kUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case nccl::kSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case nccl::kInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case nccl::kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "internal error - please report this issue to the NCCL developers";
  }
}

const char* ncclGetLastError(nccl::Comm* comm) {
  return comm != nullptr && !comm->words.empty() ? comm->words.c_str() : nccl::last_error.c_str();
}

int ncclCommGetAsyncError(nccl::Comm* comm, int* state) {
  *state = comm->state.load();
  return nccl::kSuccess;
}

int ncclAllReduce(const void* from,
                  void* to,
                  std::size_t count,
                  int type,
                  int operation,
                  nccl::Comm* comm,
                  void* stream) {
  nccl::OpenGroup& group = nccl::open_group;
  const int call = comm->call_count++;
  const bool is_number = type == nccl::kFloat32 || type == nccl::kFloat64;
  const bool is_known = from == to && is_number && operation == nccl::kSum;
  if (!is_known || OrderedFault("refuse", comm->rank, call)) {
    group.is_refused = true;
    return nccl::FailCall(nccl::kInternalError, "ordered: this sum is refused");
  }
  // The real one may hang where one thread calls one end after the other.
  if (comm->has_siblings && group.depth == 0) {
    return nccl::FailCall(nccl::kInvalidUsage, "sums of several devices outside of a group");
  }
  if (!nccl::IsOnDeviceOf(*comm, stream)) {
    group.is_refused = true;
    return nccl::FailCall(nccl::kInvalidUsage, "a stream of another device");
  }
  const std::size_t number_bytes = type == nccl::kFloat64 ? sizeof(double) : sizeof(float);
  if (HasNoWay(comm->rank, count * number_bytes)) {
    comm->Fail(nccl::kUnhandledCudaError, "ordered: no way between GPUs for such a sum");
    group.has_no_way = group.depth > 0;
    return nccl::kInProgress;
  }
  const nccl::Kernel kernel{comm, to, count, type, call, stream};
  if (group.depth > 0) {
    group.kernels.push_back(kernel);
    return nccl::kSuccess;
  }
  return nccl::Launch(kernel);
}

int ncclGroupStart() {
  ++nccl::open_group.depth;
  return nccl::kSuccess;
}

// Without blocking: what was called goes on by itself.
int ncclGroupEnd() {
  nccl::OpenGroup& group = nccl::open_group;
  if (group.depth == 0) {
    return nccl::FailCall(nccl::kInvalidUsage, "a group that was not begun");
  }
  if (--group.depth > 0) {
    return nccl::kSuccess;
  }
  const nccl::OpenGroup ended = std::exchange(group, {});
  if (ended.is_refused) {
    return nccl::FailCall(nccl::kInvalidUsage, "a call of the group was refused");
  }
  if (ended.has_no_way) {
    return nccl::kInProgress;  // and nothing of it runs
  }
  if (!nccl::IsWhole(ended)) {
    return nccl::FailCall(nccl::kInvalidUsage, "a group without a device of this process");
  }
  for (const nccl::Kernel& kernel : ended.kernels) {
    if (const int code = nccl::Launch(kernel); code != 0) {
      return nccl::kUnhandledCudaError;
    }
  }
  return nccl::kInProgress;
}

// Kernels stop when they are told to; then nothing uses the communicator.
int ncclCommAbort(nccl::Comm* comm) {
  const bool is_stuck =
      !comm->is_stopped.load() && OrderedFault("stuck-abort", comm->rank, 1).has_value();
  while (is_stuck) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  comm->Stop();
  nccl::ForgetEnd(comm);
  delete comm;
  return nccl::kSuccess;
}
}
