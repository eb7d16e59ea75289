#pragma once

#include <mutex>
#include <optional>
#include <string_view>

#include "common/base/time.h"

namespace lockstep::control {

// What the API server's clock shows, as the Date headers of its replies tell: whole seconds, from
// some moment between request and reply. Thread: any.
class ServerClock {
 public:
  // The server's clock shows nothing outside of these.
  struct Range {
    WallTime earliest{};
    WallTime latest{};

    friend bool operator==(const Range&, const Range&) = default;
  };

  // A reply with the header `date` was asked for and came at these moments. A header that is no
  // date says nothing, and neither does a reply that took more than 5 s: nobody knows when it was
  // written.
  void Note(std::string_view date, TimePoint asked, TimePoint came);

  // By the last reply that said anything; null: none has.
  std::optional<Range> At(TimePoint now) const;

 private:
  struct Sample {
    Range range;
    TimePoint came{};  // then it was so
  };

  mutable std::mutex mutex_;
  std::optional<Sample> last_;  // guarded by mutex_
};

}  // namespace lockstep::control
