#include "operator/kubeclient/kube/reflector_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Source: client-go's reflector: back-off, and how long watches last. Its longest pause is 30 s.
// Choice: 5 s, for after an outage whoever waits for the operator waits for this as well, and one
// process's handful of watches is no burden to a server that comes back.
constexpr Duration kBackOffMin = milliseconds(800);
constexpr Duration kBackOffMax = seconds(5);
constexpr Duration kBackOffForgotten = minutes(2);  // without a failure
constexpr uint64_t kWatchSecondsMin = 300;
constexpr uint64_t kWatchSecondsMax = 600;
constexpr Duration kShortWatch = seconds(1);  // with nothing in it: a failure

// A server that ignores the wish for a streaming list never ends it: the stream's own end must not
// be far. Choice: longer than 100,000 objects take, short enough to wait for once.
constexpr seconds kStreamingListTimeout{60};

constexpr int kStreamingMissesMax = 2;  // then LIST for ever
constexpr int kListFailuresMax = 3;     // then without the version, should that be the reason
constexpr std::size_t kRefusalBytesMax = 65536;  // what is read of an error's text

bool IsNoVersion(const std::string& version) {
  return version.empty() || version == "0";
}

}  // namespace

ReflectorCore::ReflectorCore(ReflectorOptions options, Decode decode, uint64_t seed)
    : options_(std::move(options)),
      decode_(std::move(decode)),
      prng_(seed),
      can_stream_list_(options_.wants_streaming_list) {}

ReflectorCore::Next ReflectorCore::NextRequest(TimePoint now) {
  LOCKSTEP_CHECK(exchange_ == Exchange::kNone, "a request is already in progress");
  http_status_ = 0;
  event_count_ = 0;
  splitter_ = {};
  framer_ = {};
  refusal_.clear();
  status_.reset();
  problem_.reset();
  started_ = std::max(now, not_before_);
  if (!needs_state_) {
    exchange_ = Exchange::kWatch;
    is_synthetic_ = IsNoVersion(last_version_);
    ++counts_.watches;
    const seconds timeout(kWatchSecondsMin + prng_.Below(kWatchSecondsMax - kWatchSecondsMin + 1));
    return {not_before_, Watch(options_.selection, {last_version_, timeout, false})};
  }
  ++counts_.lists;
  if (can_stream_list_ && !wants_plain_list_) {
    exchange_ = Exchange::kStreamingList;
    is_synthetic_ = false;
    const std::string version = is_version_unavailable_ ? "" : last_version_;
    return {not_before_, Watch(options_.selection, {version, kStreamingListTimeout, true})};
  }
  exchange_ = Exchange::kList;
  return {not_before_, NextListRequest()};
}

Request ReflectorCore::NextListRequest() const {
  ListOptions list;
  list.continue_token = continue_token_;
  if (is_version_unavailable_) {
    list.resource_version = "";
  } else {
    list.resource_version = last_version_.empty() ? "0" : last_version_;
  }
  // A limit sends the list past the server's cache to etcd, except at version 0: a relist asks for
  // none, unless the server pages anyway.
  const bool is_relist = !IsNoVersion(list.resource_version);
  const bool has_limit = !wants_single_page_ && (is_paginated_ || !is_relist);
  list.limit = has_limit ? options_.page_size : 0;
  return List(options_.selection, list);
}

void ReflectorCore::OnStatus(int http_status) {
  http_status_ = http_status;
}

bool ReflectorCore::OnBytes(std::string_view bytes, std::vector<ObjectUpdate<void>>* updates) {
  LOCKSTEP_CHECK(exchange_ != Exchange::kNone, "bytes arrived while no request was in progress");
  if (problem_ || status_) {
    return false;
  }
  if (http_status_ < 200 || http_status_ >= 300) {
    refusal_ += bytes.substr(0, kRefusalBytesMax - std::min(kRefusalBytesMax, refusal_.size()));
    return true;
  }
  const Status fed =
      exchange_ == Exchange::kList
          ? splitter_.Feed(bytes, [this](std::string_view json) { OnListedItem(json); })
          : framer_.Feed(bytes,
                         [this, updates](std::string_view line) { return OnLine(line, updates); });
  if (!fed.ok()) {
    problem_ = fed.error();
  }
  return !problem_ && !status_;
}

std::optional<Item<void>> ReflectorCore::DecodeOrSkip(std::string_view json) {
  Result<Item<void>> item = decode_(json);
  if (!item.ok()) {
    ++counts_.skipped;
    last_failure_ = item.error().ToString();
    return std::nullopt;
  }
  return std::move(item).value();
}

void ReflectorCore::OnListedItem(std::string_view json) {
  if (std::optional<Item<void>> item = DecodeOrSkip(json)) {
    listed_.push_back(*std::move(item));
  }
}

bool ReflectorCore::OnLine(std::string_view line, std::vector<ObjectUpdate<void>>* updates) {
  const Result<WatchEvent> event = ParseWatchEvent(line);
  if (!event.ok()) {
    problem_ = event.error();
    return false;
  }
  ++event_count_;
  ++counts_.events;
  switch (event->type) {
    case WatchEventType::kAdded:
    case WatchEventType::kModified:
    case WatchEventType::kDeleted:
      OnObjectEvent(*event, updates);
      return true;
    case WatchEventType::kBookmark:
      OnBookmark(*event, updates);
      return true;
    case WatchEventType::kError:
      status_ = DecodeApiStatus(event->object);
      return false;
    case WatchEventType::kUnknown:
      return true;  // a newer server's: what we know still holds
  }
  return true;
}

void ReflectorCore::OnObjectEvent(const WatchEvent& event,
                                  std::vector<ObjectUpdate<void>>* updates) {
  std::optional<Item<void>> item = DecodeOrSkip(event.object);
  if (!item) {
    return;
  }
  const bool is_deletion = event.type == WatchEventType::kDeleted;
  if (exchange_ == Exchange::kStreamingList) {
    if (is_deletion) {
      streamed_.erase(item->key);
    } else {
      ObjectKey key = item->key;
      streamed_.insert_or_assign(std::move(key), *std::move(item));
    }
    return;
  }
  has_progressed_ = true;
  is_synthetic_ = is_synthetic_ && event.type == WatchEventType::kAdded;
  if (!is_synthetic_ && !item->resource_version.empty()) {
    last_version_ = item->resource_version;
  }
  if (is_deletion) {
    updates->emplace_back(Deleted<void>{*std::move(item)});
  } else {
    updates->emplace_back(Upserted<void>{*std::move(item)});
  }
}

void ReflectorCore::OnBookmark(const WatchEvent& event, std::vector<ObjectUpdate<void>>* updates) {
  Result<Bookmark> bookmark = DecodeBookmark(event.object);
  if (!bookmark.ok()) {
    return;  // a bookmark is help, not a change
  }
  if (exchange_ == Exchange::kWatch) {
    has_progressed_ = true;
    is_synthetic_ = false;
    last_version_ = std::move(bookmark->resource_version);
    return;
  }
  if (!bookmark->ends_initial_events) {
    return;
  }
  std::vector<Item<void>> items;
  items.reserve(streamed_.size());
  for (auto& [key, item] : streamed_) {
    items.push_back(std::move(item));
  }
  streaming_misses_ = 0;
  Replace(std::move(items), std::move(bookmark->resource_version), updates);
  exchange_ = Exchange::kWatch;  // the same stream goes on as a watch
}

void ReflectorCore::Replace(std::vector<Item<void>> items,
                            std::string resource_version,
                            std::vector<ObjectUpdate<void>>* updates) {
  updates->emplace_back(Replaced<void>{std::move(items)});
  last_version_ = std::move(resource_version);
  has_synced_ = true;
  refusal_since_.clear();
  is_kind_unknown_ = false;
  needs_state_ = false;
  is_version_unavailable_ = false;
  wants_plain_list_ = false;
  wants_single_page_ = false;
  has_progressed_ = false;
  list_failures_ = 0;
  DropList();
}

void ReflectorCore::OnEnd(const std::optional<Fault>& fault,
                          TimePoint now,
                          std::vector<ObjectUpdate<void>>* updates) {
  const Exchange exchange = std::exchange(exchange_, Exchange::kNone);
  LOCKSTEP_CHECK(exchange != Exchange::kNone, "no request is in progress that could end");
  const Ending ending = Classify(fault);
  not_before_ = now;
  switch (exchange) {
    case Exchange::kList:
      EndList(ending, now, updates);
      return;
    case Exchange::kStreamingList:
      EndStreamingList(ending, now);
      return;
    case Exchange::kWatch:
    case Exchange::kNone:
      EndWatch(ending, now);
      return;
  }
}

// What the server said counts before how the connection ended: the driver breaks it after an ERROR.
ReflectorCore::Ending ReflectorCore::Classify(const std::optional<Fault>& fault) {
  if (problem_) {
    last_failure_ = problem_->ToString();
    return Ending::kCorrupt;
  }
  const bool is_refusal = http_status_ != 0 && (http_status_ < 200 || http_status_ >= 300);
  if (is_refusal) {
    status_ = DecodeApiStatus(refusal_);
    status_->code = http_status_;
  }
  if (status_) {
    last_failure_ = std::to_string(status_->code);
    for (const auto& [separator, words] :
         {std::pair(" ", &status_->reason), std::pair(": ", &status_->message)}) {
      last_failure_ += words->empty() ? "" : separator + *words;
    }
    if (status_->code == 404 && status_->message.empty()) {
      last_failure_ += ": the API server does not know this kind";  // it answers with plain text
    }
    if (status_->is_version_too_large) {
      return Ending::kTooLarge;
    }
    switch (status_->code) {
      case 410:
        return Ending::kExpired;
      case 429:
        return Ending::kBusy;
      case 400:
      case 405:
      case 406:
      case 415:
      case 422:
      case 501:
        return Ending::kUnsupported;
      default:
        break;
    }
    if (status_->code >= 400 && status_->code < 500) {
      refusal_since_ = last_failure_;
      is_kind_unknown_ = status_->code == 404;
      return Ending::kRefused;
    }
    return Ending::kBroken;
  }
  if (fault) {
    last_failure_ = std::string(FaultKindName(fault->kind)) + ": " + fault->message;
    return fault->kind == FaultKind::kRefused ? Ending::kBusy : Ending::kBroken;
  }
  return http_status_ == 0 ? Ending::kBroken : Ending::kClean;
}

void ReflectorCore::EndList(Ending ending,
                            TimePoint now,
                            std::vector<ObjectUpdate<void>>* updates) {
  if (ending == Ending::kClean) {
    Result<ListHead> head = splitter_.Finish();
    if (head.ok() && !head->continue_token.empty()) {
      is_paginated_ = is_paginated_ || last_version_.empty();
      continue_token_ = std::move(head->continue_token);
      return;
    }
    if (head.ok()) {
      Replace(std::move(listed_), std::move(head->resource_version), updates);
      return;
    }
    last_failure_ = head.error().ToString();
    ending = Ending::kCorrupt;
  }
  const bool was_page = !continue_token_.empty();
  DropList();
  if (ending == Ending::kExpired && was_page && !wants_single_page_) {
    wants_single_page_ = true;
  } else if (ending == Ending::kExpired || ending == Ending::kTooLarge) {
    GiveUpVersion(now);
  } else {
    is_version_unavailable_ = is_version_unavailable_ || ++list_failures_ >= kListFailuresMax;
    BackOff(now);
  }
}

void ReflectorCore::EndStreamingList(Ending ending, TimePoint now) {
  DropList();
  switch (ending) {
    case Ending::kClean:
      can_stream_list_ = ++streaming_misses_ < kStreamingMissesMax;
      wants_plain_list_ = true;
      return;
    case Ending::kUnsupported:
      can_stream_list_ = false;
      return;
    case Ending::kExpired:
    case Ending::kTooLarge:
      GiveUpVersion(now);
      return;
    case Ending::kBusy:
      BackOff(now);
      return;
    case Ending::kRefused:
    case Ending::kCorrupt:
    case Ending::kBroken:
      wants_plain_list_ = true;
      BackOff(now);
      return;
  }
}

void ReflectorCore::EndWatch(Ending ending, TimePoint now) {
  switch (ending) {
    case Ending::kClean:
      if (event_count_ == 0 && now - started_ < kShortWatch) {
        last_failure_ = "the watch ended at once";
        BackOff(now);
      }
      return;
    case Ending::kExpired:
    case Ending::kTooLarge:
      if (!has_progressed_) {
        BackOff(now);  // a list and a watch that disagree must not chase each other
      }
      Relist();
      is_version_unavailable_ = ending == Ending::kTooLarge;
      return;
    case Ending::kBusy:
    case Ending::kBroken:
      BackOff(now);  // what was handed over stays true: the watch goes on from there
      return;
    case Ending::kUnsupported:
    case Ending::kRefused:
    case Ending::kCorrupt:
      Relist();
      BackOff(now);
      return;
  }
}

void ReflectorCore::GiveUpVersion(TimePoint now) {
  if (is_version_unavailable_) {
    BackOff(now);  // it was not asked for: giving it up again helps nobody
  }
  is_version_unavailable_ = true;
}

void ReflectorCore::Relist() {
  ++counts_.relists;
  needs_state_ = true;
}

void ReflectorCore::DropList() {
  continue_token_.clear();
  listed_.clear();
  streamed_.clear();
}

void ReflectorCore::BackOff(TimePoint now) {
  ++counts_.failures;
  if (last_failure_at_ && now - *last_failure_at_ > kBackOffForgotten) {
    failures_in_a_row_ = 0;
  }
  last_failure_at_ = now;
  Duration delay = kBackOffMin;
  for (int i = 0; i < failures_in_a_row_ && delay < kBackOffMax; ++i) {
    delay *= 2;
  }
  ++failures_in_a_row_;
  delay = std::min(delay, kBackOffMax);
  delay += Duration(prng_.Below(static_cast<uint64_t>(delay.count())));
  if (status_ && status_->retry_after) {
    delay = std::max<Duration>(delay, *status_->retry_after);
  }
  not_before_ = now + delay;
}

}  // namespace lockstep::control::kube
