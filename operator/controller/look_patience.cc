#include "operator/controller/look_patience.h"

#include <algorithm>
#include <chrono>

namespace lockstep::control {
namespace {

// At least, for each pod of the job, and at most. Choices: a pod that takes another's place runs
// after a tenth of a second where nothing has to be loaded, and what is written on the way holds it
// up; a gang of 500 is looked at once a second, where a look costs some milliseconds and its status
// 80 KB.
constexpr Duration kMin = std::chrono::milliseconds(100);
constexpr Duration kPerPod = std::chrono::milliseconds(2);
constexpr Duration kMax = std::chrono::seconds(1);

// While the gang comes up: every pod has news several times in a second, and what lies between none
// and all is worth no more than that; the last one to run is urgent news. Choices: at one second,
// 100 gangs that came up together within 6 s wrote 4.6 statuses each; three of them say something.
// The more gangs come up, the longer the API server takes for each, and the less there is to tell
// of it in a second: 600 took longer than two.
constexpr Duration kComingUp = std::chrono::seconds(2);
constexpr Duration kPerComingUp = std::chrono::milliseconds(10);
constexpr Duration kComingUpMax = std::chrono::seconds(10);

}  // namespace

void LookPatience::Note(const JobId& key, bool comes_up) {
  if (comes_up) {
    coming_up_.insert(key);
  } else {
    coming_up_.erase(key);
  }
}

Duration LookPatience::For(const JobId& key, int64_t pods) const {
  if (coming_up_.contains(key)) {
    const auto count = static_cast<int64_t>(coming_up_.size());
    return std::min<Duration>(kComingUp + count * kPerComingUp, kComingUpMax);
  }
  return std::clamp<Duration>(pods * kPerPod, kMin, kMax);
}

}  // namespace lockstep::control
