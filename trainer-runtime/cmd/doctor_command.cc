#include "trainer-runtime/cmd/doctor_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "common/contract/status/exit_code.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"
#include "trainer-runtime/collectives/nccl/nccl_network.h"

namespace lockstep::runtime {
namespace {

// Choice: opening a device for the first time takes a second or two.
constexpr Duration kJoinPatience = std::chrono::seconds(30);

void Say(const char* what, const std::string& text) {
  std::printf("%-9s %s\n", what, text.c_str());
}

// A communicator of this rank alone: everything but other ranks. Whether it came to be.
bool TryToJoin(const std::shared_ptr<NcclGround>& ground) {
  NcclSeat seat;
  if (const nccl::Result code = ground->library->get_unique_id(&seat.id); code != nccl::kSuccess) {
    Say("identity", "not created; NCCL says: " + ground->library->Words(code, nullptr));
    return false;
  }
  Say("identity", "made");
  const TimePoint begin = SteadyNow();
  const WaitLimits limits{Deadline::After(begin, kJoinPatience), [] { return OkStatus(); }};
  const auto joined = NcclCommunicator::Join(ground, seat, limits);
  const std::string seconds = std::to_string(ToSeconds(SteadyNow() - begin)) + " s";
  Say("join",
      joined.ok() ? "created a communicator of one rank in " + seconds
                  : joined.error().message() + ", after " + seconds);
  return joined.ok();
}

}  // namespace

int DoctorCommand() {
  auto ground = std::make_shared<NcclGround>();
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::OpenFirst();
  Say("gpu",
      device.ok() ? (*device)->uuid() + ", the first of " +
                        std::to_string((*device)->visible_count()) + " visible"
                  : device.error().message());
  Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::Open();
  Say("nccl", library.ok() ? (*library)->Describe() : library.error().message());
  const bool is_broken = (!device.ok() && device.error().code() != ErrorCode::kNotFound) ||
                         (!library.ok() && library.error().code() != ErrorCode::kNotFound);
  bool works = false;
  if (library.ok()) {
    if (device.ok()) {
      ground->devices.push_back(*device);
    }
    ground->library = *library;
    works = TryToJoin(ground) && device.ok();
    if (const std::string cards = UnusedCards(); works && !cards.empty()) {
      Say("network", "TCP (NET/Socket), although this node has " + cards);
    }
  }
  Say("verdict",
      works ? "spec.training.communication.allReduce: Nccl works here"
            : "spec.training.communication.allReduce: Nccl does not work here; Auto and Cpu do");
  const bool has_both = device.ok() && library.ok();
  return is_broken || (has_both && !works) ? kExitInternal : kExitSuccess;
}

}  // namespace lockstep::runtime
