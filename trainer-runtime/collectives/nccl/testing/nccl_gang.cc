#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include <sys/mman.h>

#include "common/base/check.h"
#include "common/base/testing/paths.h"

namespace lockstep::runtime {
namespace {

// What a rank leaves for the test, in memory that both see.
struct Note {
  int code;
  char text[2000];
};

Result<std::string> RunRank(const NcclGangOptions& options,
                            const NcclRankBody& body,
                            Communicator& control) {
  ::setenv("FAKE_NCCL_FAULT", options.fault.c_str(), 1);
  NcclReducerOptions join;
  const auto rank = static_cast<std::size_t>(control.rank());
  const int device_count =
      options.device_counts.empty() ? options.device_count : options.device_counts[rank];
  ::setenv("FAKE_CUDA_DEVICES", std::to_string(device_count).c_str(), 1);
  join.ground = MakeFakeGround(options.versions.empty() ? options.version : options.versions[rank],
                               device_count);
  join.control = &control;
  join.epoch = Epoch(3);
  join.element_count = options.element_count;
  join.bucket_counts = options.bucket_counts;
  join.loss_patience = options.loss_patience;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<GradientReducer> reducer,
                            JoinNccl(join, Deadline::After(SteadyNow(), options.join_timeout)));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string said, body(control, *reducer, *join.ground));
  // Nobody leaves while another still needs it.
  LOCKSTEP_RETURN_IF_ERROR(control.Barrier(Soon()));
  return said;
}

void Write(const Result<std::string>& ended, Note* note) {
  note->code = ended.ok() ? -1 : static_cast<int>(ended.error().code());
  const std::string text = ended.ok() ? *ended : ended.error().ToString();
  std::memcpy(note->text, text.data(), std::min(text.size(), sizeof(note->text) - 1));
}

}  // namespace

std::string FakeNcclFile(const std::string& version) {
  return BuiltFile("bin/doubles/nccl-" + version + "/libnccl.so.2");
}

std::string FakeCudaFile() {
  return BuiltFile("bin/doubles/cuda/libcuda.so.1");
}

NcclFiles FakeFiles(const std::string& version) {
  return {FakeNcclFile(version), FakeCudaFile()};
}

std::shared_ptr<NcclGround> MakeFakeGround(const std::string& version, int device_count) {
  std::vector<int> devices(static_cast<std::size_t>(device_count));
  std::iota(devices.begin(), devices.end(), 0);
  std::shared_ptr<NcclGround> ground = OpenNccl(devices, FakeFiles(version)).value();
  ground->end_patience = std::chrono::milliseconds(300);  // tests of what never ends wait for it
  return ground;
}

std::vector<NcclRankEnd> RunNcclGang(const NcclGangOptions& options, const NcclRankBody& body) {
  const auto count = static_cast<std::size_t>(options.world_size);
  const std::size_t size = count * sizeof(Note);
  void* const shared =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LOCKSTEP_CHECK(shared != MAP_FAILED, "mmap");
  auto* const notes = static_cast<Note*>(shared);
  std::vector<NcclRankEnd> ends(count);
  {
    ProcessWorld world(options.world_size, options.control, [&](Communicator& control) {
      Write(RunRank(options, body, control), &notes[control.rank()]);
      return 0;
    });
    for (int rank = 0; rank < options.world_size; ++rank) {
      NcclRankEnd& end = ends[static_cast<std::size_t>(rank)];
      end.is_dead = world.Wait(rank) < 0;
      end.code = notes[rank].code;
      end.text = notes[rank].text;
    }
  }
  ::munmap(shared, size);
  return ends;
}

}  // namespace lockstep::runtime
