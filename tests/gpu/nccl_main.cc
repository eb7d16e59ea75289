// NCCL as the machine has it, on a real GPU. Prints rows of tests/gpu/run.sh.
//
//   lockstep-gpu-nccl one    one rank, through the product's reducer
//   lockstep-gpu-nccl multi-rank-gpu | host-id
//                            two processes on one GPU, which the product refuses and NCCL does not
//                            support: by the setting of 2.30, or by two names for one host. They
//                            sum, then one is killed and the other aborts.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sys/mman.h>

#include "common/base/check.h"
#include "tests/gpu/rows.h"
#include "trainer-runtime/collectives/nccl/nccl_reducer.h"
#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::gpu {
namespace {

using namespace std::chrono_literals;
using runtime::Communicator;
using runtime::CudaStage;
using runtime::NcclCommunicator;
using runtime::NcclGround;
using runtime::WaitLimits;

constexpr std::size_t kCount = std::size_t{1} << 20U;
constexpr double kAbortMillisecondsMax = 100;

// What the ranks leave for whoever prints, in memory that all see.
struct Board {
  std::atomic<int64_t> killed_at;  // nanoseconds of the steady clock; 0: not yet
  std::atomic<bool> has_joined;
  std::atomic<bool> has_summed;
  std::atomic<int64_t> aborted_at;
  std::atomic<bool> is_stuck;
  char text[1000];  // of rank 0: an error, or what it says of itself
};

Board* MakeBoard() {
  void* const shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LOCKSTEP_CHECK(shared != MAP_FAILED, "mmap");
  return new (shared) Board{};
}

int64_t NowNanoseconds() {
  return std::chrono::nanoseconds(SteadyNow().time_since_epoch()).count();
}

Deadline In(Duration time) {
  return Deadline::After(SteadyNow(), time);
}

void Say(Board* board, const std::string& text) {
  std::snprintf(board->text, sizeof(board->text), "%s", text.c_str());
}

// --- One rank ---

Result<std::string> SumAlone(Communicator& control) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<NcclGround> ground, runtime::OpenNccl());
  runtime::NcclReducerOptions options;
  options.ground = ground;
  options.control = &control;
  options.element_count = kCount;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto reducer, runtime::JoinNccl(options, In(30s)));
  std::vector<float> bucket(kCount, 3);
  LOCKSTEP_RETURN_IF_ERROR(reducer->Enqueue(bucket, In(10s)));
  LOCKSTEP_RETURN_IF_ERROR(reducer->Finish(In(10s)));
  for (const float value : bucket) {
    if (value != 3) {
      return Error(ErrorCode::kMismatch, "the sum over one rank is " + std::to_string(value));
    }
  }
  return reducer->Detail();
}

bool RunOne(Board* board) {
  runtime::ProcessWorld world(1, runtime::Backend::kSharedMemory, [&](Communicator& control) {
    const Result<std::string> summed = SumAlone(control);
    Say(board, summed.ok() ? *summed : summed.error().ToString());
    return summed.ok() ? 0 : 1;
  });
  const bool is_held = world.Wait(0) == 0;
  return PrintBar("NCCL, one rank through our reducer", board->text, "sums", is_held);
}

// --- Two ranks on one GPU ---

// What lets NCCL take two ranks on one GPU, for this process.
void AllowSharing(const std::string& way, int rank) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  if (way == "multi-rank-gpu") {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  } else {
    ::setenv("NCCL_HOSTID", ("lockstep-" + std::to_string(rank)).c_str(), 1);
  }
}

class Pair {
 public:
  Pair(Communicator& control, Board* board) : control_(control), board_(board) {}

  Status Run() {
    LOCKSTEP_RETURN_IF_ERROR(Join());
    board_->has_joined = true;
    LOCKSTEP_RETURN_IF_ERROR(Sum());
    LOCKSTEP_RETURN_IF_ERROR(control_.Barrier(In(10s)));
    return control_.rank() == 0 ? Outlive() : Die();
  }

 private:
  WaitLimits Limits() const {
    return {In(20s), [this] { return control_.CheckHealth(); }};
  }

  Status Join() {
    LOCKSTEP_ASSIGN_OR_RETURN(ground_, runtime::OpenNccl());
    runtime::NcclSeat seat{{}, control_.rank(), control_.world_size()};
    if (control_.rank() == 0 &&
        ground_->library->get_unique_id(&seat.id) != runtime::nccl::kSuccess) {
      return Error(ErrorCode::kInternal, "NCCL has no identity");
    }
    LOCKSTEP_RETURN_IF_ERROR(control_.Broadcast(&seat.id, sizeof(seat.id), 0, In(20s)));
    LOCKSTEP_ASSIGN_OR_RETURN(stage_,
                              CudaStage::Make(ground_->devices.front(), kCount * sizeof(float)));
    LOCKSTEP_ASSIGN_OR_RETURN(nccl_, NcclCommunicator::Join(ground_, seat, Limits()));
    return OkStatus();
  }

  float* Values() { return reinterpret_cast<float*>(stage_->host()); }

  Status StartSum() {
    LOCKSTEP_RETURN_IF_ERROR(stage_->device().MakeCurrent());
    std::fill_n(Values(), kCount, static_cast<float>(control_.rank() + 1));
    LOCKSTEP_RETURN_IF_ERROR(stage_->CopyToDevice(0, kCount * sizeof(float)));
    const NcclCommunicator::Part part{stage_->device_address(0), stage_->stream()};
    LOCKSTEP_RETURN_IF_ERROR(
        nccl_->AllReduce({&part, 1}, kCount, runtime::DataType::kFloat32, Limits()));
    return stage_->CopyToHost(0, kCount * sizeof(float));
  }

  Status AwaitSum() {
    return runtime::WaitUntil(
        [this]() -> Result<bool> {
          LOCKSTEP_RETURN_IF_ERROR(nccl_->Check());
          return stage_->IsIdle();
        },
        Limits());
  }

  Status Sum() {
    LOCKSTEP_RETURN_IF_ERROR(StartSum());
    LOCKSTEP_RETURN_IF_ERROR(AwaitSum());
    if (!std::all_of(Values(), Values() + kCount, [](float value) { return value == 3; })) {
      return Error(ErrorCode::kMismatch, "1 + 2 is " + std::to_string(Values()[0]));
    }
    board_->has_summed = true;
    return OkStatus();
  }

  // In the midst of the other's sum: what is waited for is that its kernel runs.
  Status Die() {
    std::this_thread::sleep_for(300ms);
    board_->killed_at = NowNanoseconds();
    ::kill(::getpid(), SIGKILL);
    return OkStatus();
  }

  Status Outlive() {
    LOCKSTEP_RETURN_IF_ERROR(StartSum());
    const Status waited = AwaitSum();
    if (waited.ok()) {
      return Error(ErrorCode::kMismatch, "a sum ended without the other rank");
    }
    nccl_->NoteFailure();
    nccl_.reset();
    board_->aborted_at = NowNanoseconds();
    board_->is_stuck = ground_->is_stuck.load();
    Say(board_, waited.error().ToString());
    if (ground_->is_stuck) {
      static_cast<void>(stage_.release());  // its kernels may still run
    }
    return OkStatus();
  }

  Communicator& control_;
  Board* board_;
  std::shared_ptr<NcclGround> ground_;
  std::unique_ptr<CudaStage> stage_;
  std::unique_ptr<NcclCommunicator> nccl_;  // freed first
};

int PrintPair(const std::string& way, const Board& board) {
  const std::string two = "two processes on one GPU (" + way + "): ";
  const std::string kill = two + "kill -9 to NCCL's abort";
  if (!board.has_joined) {
    PrintRow(two + "sum", board.text, "right", "not run");
    PrintRow(kill, "no sum before it", "<= 100 ms", "not run");
    return kExitRefused;
  }
  const bool has_summed =
      PrintBar(two + "sum", board.has_summed ? "1 + 2 = 3" : board.text, "right", board.has_summed);
  if (board.killed_at == 0 || board.aborted_at == 0) {
    PrintBar(kill, board.text, "<= 100 ms", false);
    return kExitMissed;
  }
  const double milliseconds =
      static_cast<double>(board.aborted_at.load() - board.killed_at.load()) / 1e6;
  const bool is_in_time =
      milliseconds >= 0 && milliseconds <= kAbortMillisecondsMax && !board.is_stuck;
  PrintBar(kill,
           OneDecimal(milliseconds) + " ms, " + board.text +
               (board.is_stuck ? "; the abort has not returned" : ""),
           "<= 100 ms",
           is_in_time);
  return has_summed && is_in_time ? kExitHeld : kExitMissed;
}

int RunTwo(const std::string& way, Board* board) {
  runtime::ProcessWorld world(2, runtime::Backend::kSharedMemory, [&](Communicator& control) {
    AllowSharing(way, control.rank());
    const Status ran = Pair(control, board).Run();
    if (!ran.ok() && control.rank() == 0) {
      Say(board, ran.error().ToString());
    }
    return ran.ok() ? 0 : 1;
  });
  static_cast<void>(world.Wait(0));
  static_cast<void>(world.Wait(1));
  return PrintPair(way, *board);
}

int Main(const std::string& mode) {
  Board* const board = MakeBoard();
  if (mode == "one") {
    return RunOne(board) ? kExitHeld : kExitMissed;
  }
  if (mode == "multi-rank-gpu" || mode == "host-id") {
    return RunTwo(mode, board);
  }
  std::fprintf(stderr, "'%s': expected one, multi-rank-gpu or host-id\n", mode.c_str());
  return kExitUsage;
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  return lockstep::gpu::Main(argc == 2 ? argv[1] : "");
}
