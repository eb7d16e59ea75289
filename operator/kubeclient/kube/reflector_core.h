#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/prng.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/json_stream.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/kubeclient/kube/watch_event.h"

namespace lockstep::control::kube {

struct ReflectorOptions {
  Selection selection;
  bool wants_streaming_list = true;  // falls back to LIST where the server refuses or ignores it
  int page_size = 500;
};

// What one reflector has been through, for metrics and logs.
struct ReflectorCounts {
  int64_t lists = 0;
  int64_t watches = 0;
  int64_t events = 0;
  int64_t relists = 0;   // after the first state was whole
  int64_t failures = 0;  // exchanges after which it had to wait
  int64_t skipped = 0;   // objects that could not be decoded
};

// Reflector without the type of its objects: see there. Thread: one.
class ReflectorCore {
 public:
  using Decode = std::function<Result<Item<void>>(std::string_view json)>;

  ReflectorCore(ReflectorOptions options, Decode decode, uint64_t seed);

  struct Next {
    TimePoint not_before{};  // back-off
    Request request;
  };

  Next NextRequest(TimePoint now);
  void OnStatus(int http_status);
  bool OnBytes(std::string_view bytes, std::vector<ObjectUpdate<void>>* updates);
  void OnEnd(const std::optional<Fault>& fault,
             TimePoint now,
             std::vector<ObjectUpdate<void>>* updates);

  bool has_synced() const { return has_synced_; }

  const ReflectorCounts& counts() const { return counts_; }

  const std::string& last_failure() const { return last_failure_; }

  const std::string& refusal() const { return refusal_since_; }

  bool is_kind_unknown() const { return is_kind_unknown_; }

 private:
  enum class Exchange { kNone, kStreamingList, kList, kWatch };

  // How an exchange ended, by what follows from it.
  enum class Ending {
    kClean,
    kExpired,      // the asked version is no longer there
    kTooLarge,     // the asked version is not yet there
    kBusy,         // nobody listens, or come back later
    kUnsupported,  // the server does not understand
    kRefused,      // it understands, and will not
    kCorrupt,      // what came makes no sense
    kBroken,       // the connection or the server failed
  };

  Request NextListRequest() const;
  bool OnLine(std::string_view line, std::vector<ObjectUpdate<void>>* updates);
  void OnObjectEvent(const WatchEvent& event, std::vector<ObjectUpdate<void>>* updates);
  void OnBookmark(const WatchEvent& event, std::vector<ObjectUpdate<void>>* updates);
  void OnListedItem(std::string_view json);
  std::optional<Item<void>> DecodeOrSkip(std::string_view json);

  Ending Classify(const std::optional<Fault>& fault);
  void EndList(Ending ending, TimePoint now, std::vector<ObjectUpdate<void>>* updates);
  void EndStreamingList(Ending ending, TimePoint now);
  void EndWatch(Ending ending, TimePoint now);
  void Replace(std::vector<Item<void>> items,
               std::string resource_version,
               std::vector<ObjectUpdate<void>>* updates);
  void GiveUpVersion(TimePoint now);
  void Relist();
  void DropList();
  void BackOff(TimePoint now);

  ReflectorOptions options_;
  Decode decode_;
  Prng prng_;
  ReflectorCounts counts_;
  std::string last_failure_;
  std::string refusal_since_;     // see Reflector::refusal
  bool is_kind_unknown_ = false;  // of that refusal

  // What is known.
  std::string last_version_;  // of the last change that was handed over
  bool has_synced_ = false;
  bool needs_state_ = true;              // the whole state is wanted, not what changed
  bool is_version_unavailable_ = false;  // last_version_ is of no use: ask for the newest
  bool can_stream_list_;                 // as far as is known
  bool wants_plain_list_ = false;        // this once
  bool is_paginated_ = false;            // the server pages even lists from its cache
  bool wants_single_page_ = false;       // since pages ran out of time
  bool has_progressed_ = true;           // since the last whole state
  int streaming_misses_ = 0;             // streaming lists that ended without their end, in a row
  int list_failures_ = 0;                // in a row
  std::string continue_token_;           // of the list under way
  std::vector<Item<void>> listed_;       // by the list under way
  std::map<ObjectKey, Item<void>> streamed_;  // by the streaming list under way

  // The open exchange.
  Exchange exchange_ = Exchange::kNone;
  TimePoint started_{};
  int http_status_ = 0;
  int64_t event_count_ = 0;
  bool is_synthetic_ = false;  // began at no version: ADDED come in any order at first
  ListSplitter splitter_;
  LineFramer framer_;
  std::string refusal_;              // the body of a reply other than 2xx
  std::optional<ApiStatus> status_;  // of an ERROR event, or read from the refusal
  std::optional<Error> problem_;     // of the bytes

  // Back-off.
  TimePoint not_before_{};
  std::optional<TimePoint> last_failure_at_;
  int failures_in_a_row_ = 0;
};

}  // namespace lockstep::control::kube
