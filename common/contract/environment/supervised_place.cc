#include "common/contract/environment/supervised_place.h"

#include <charconv>
#include <string>

#include "common/base/check.h"

namespace lockstep {
namespace {

Result<int> ReadNumber(const EnvironmentMap& variables, const char* name, int max) {
  const auto found = variables.find(name);
  const std::string text = found == variables.end() ? std::string() : found->second;
  int number = -1;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || stop != text.data() + text.size() || number < 0 || number > max) {
    return Error(ErrorCode::kInvalidArgument,
                 "\"" + text + "\" found, expected a number from 0 to " + std::to_string(max))
        .WithField(name);
  }
  return number;
}

}  // namespace

EnvironmentMap RenderSupervisedPlace(const SupervisedPlace& place) {
  return {{env::kLocalRank, std::to_string(place.local_rank)},
          {env::kProcessStart, std::to_string(place.start)},
          {env::kChannelFd, std::to_string(place.channel_fd)}};
}

Result<std::optional<SupervisedPlace>> ParseSupervisedPlace(const EnvironmentMap& variables) {
  constexpr int kLocalRankMax = 1023;        // choice: above what any machine runs
  constexpr int kDescriptorMax = (1 << 20);  // Linux's own limit, fs.nr_open
  if (variables.count(env::kChannelFd) == 0) {
    return std::optional<SupervisedPlace>();
  }
  SupervisedPlace place;
  LOCKSTEP_ASSIGN_OR_RETURN(place.local_rank,
                            ReadNumber(variables, env::kLocalRank, kLocalRankMax));
  LOCKSTEP_ASSIGN_OR_RETURN(place.start,
                            ReadNumber(variables, env::kProcessStart, kStartsPerPodMax - 1));
  LOCKSTEP_ASSIGN_OR_RETURN(place.channel_fd,
                            ReadNumber(variables, env::kChannelFd, kDescriptorMax));
  return std::optional(place);
}

Incarnation IncarnationOfProcess(Incarnation pod, int start) {
  LOCKSTEP_CHECK(start >= 0 && start < kStartsPerPodMax, "too many starts in one pod");
  return Incarnation(pod.value() * kStartsPerPodMax + start);
}

Incarnation IncarnationOfPod(Incarnation process) {
  return Incarnation(process.value() / kStartsPerPodMax);
}

}  // namespace lockstep
