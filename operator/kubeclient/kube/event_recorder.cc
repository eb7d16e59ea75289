#include "operator/kubeclient/kube/event_recorder.h"

#include <algorithm>

#include "common/base/digest.h"
#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

// Source: the API server's validation of events.
constexpr std::size_t kMessageBytesMax = 1024;
constexpr std::size_t kWordBytesMax = 128;
constexpr std::size_t kNameBytesMax = 253;

constexpr std::string_view kCombined = "(combined from similar events): ";

// What core/v1 has beside that, in whole seconds.
std::string SecondTime(WallTime when) {
  return FormatRfc3339(when).substr(0, sizeof("2026-11-21T10:22:03") - 1) + "Z";
}

// At most `bytes_max` bytes, never half a character.
std::string Cut(const std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return text;
  }
  std::size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
    --size;
  }
  return text.substr(0, size);
}

std::string EventName(const EventSubject& subject, const std::string& id) {
  const std::string suffix = "." + Sha256Hex(id).substr(0, 16);
  return subject.name.substr(0, kNameBytesMax - suffix.size()) + suffix;
}

std::string KindOf(const EventSubject& subject, const EventText& event) {
  return subject.uid + '\n' + (event.is_warning ? "Warning" : "Normal") + '\n' + event.reason +
         '\n' + event.action;
}

}  // namespace

std::optional<EventRecorder::Outgoing> EventRecorder::Record(const EventSubject& subject,
                                                             const EventText& event,
                                                             TimePoint now,
                                                             WallTime wall_now) {
  const std::string kind = KindOf(subject, event);
  const bool is_one_of_many = IsOneOfMany(kind, event.message, now);
  // All that are told together are one event, whatever they say.
  const std::string id = kind + '\n' + (is_one_of_many ? std::string(kCombined) : event.message);
  const auto known = series_.find(id);
  if (known != series_.end() && now - known->second.last_seen < options_.series_end) {
    Series& series = known->second;
    ++series.count;
    series.last_seen = now;
    series.last_at = wall_now;
    NoteDue(series);
    if (series.told_count > 1) {
      ++counts_.merged;
      return std::nullopt;  // Flush tells how many
    }
    return PatchOf(id, &series);
  }
  if (!IsAllowed(subject.uid, now)) {
    ++counts_.dropped;
    return std::nullopt;
  }
  Series series{subject, event, EventName(subject, id), wall_now, wall_now, now, now, 1, 1};
  if (is_one_of_many) {
    series.event.message = std::string(kCombined) + event.message;
  }
  Series& stored = series_[id] = std::move(series);
  Outgoing outgoing = CreateOf(id, &stored);
  NoteDue(stored);
  KeepNewest(&series_, &Series::last_seen);
  return outgoing;
}

bool EventRecorder::IsOneOfMany(const std::string& kind,
                                const std::string& message,
                                TimePoint now) {
  Kind& known = kinds_[kind];
  if (known.messages.empty() || now - known.window_begin > options_.similar_window) {
    known.messages.clear();
    known.window_begin = now;
  }
  const bool is_full = known.messages.size() >= static_cast<std::size_t>(options_.similar_max);
  const bool is_one_of_many = is_full && known.messages.count(message) == 0;
  if (!is_full) {
    known.messages.insert(message);
  }
  KeepNewest(&kinds_, &Kind::window_begin);
  return is_one_of_many;
}

bool EventRecorder::IsAllowed(const std::string& object, TimePoint now) {
  const auto [entry, is_new] = buckets_.try_emplace(object);
  Bucket& bucket = entry->second;
  const double refilled =
      is_new ? options_.burst
             : bucket.tokens + ToSeconds(now - bucket.filled_at) / ToSeconds(options_.refill);
  bucket.tokens = std::min<double>(options_.burst, refilled);
  bucket.filled_at = now;
  const bool is_allowed = bucket.tokens >= 1;
  bucket.tokens -= is_allowed ? 1 : 0;
  KeepNewest(&buckets_, &Bucket::filled_at);
  return is_allowed;
}

EventRecorder::Outgoing EventRecorder::CreateOf(const std::string& id, Series* series) {
  const EventSubject& subject = series->subject;
  // Events about objects without a namespace live in "default".
  const std::string space = subject.namespace_name.empty() ? "default" : subject.namespace_name;
  // The API of events.k8s.io has the two times read-only, and `kubectl describe` sorts by the last.
  const Json body = {{"apiVersion", "v1"},
                     {"kind", "Event"},
                     {"metadata", {{"name", series->name}, {"namespace", space}}},
                     {"eventTime", FormatMicroTime(series->first_at)},
                     {"firstTimestamp", SecondTime(series->first_at)},
                     {"lastTimestamp", SecondTime(series->last_at)},
                     {"count", series->count},
                     {"source", {{"component", options_.reporting_controller}}},
                     {"reportingComponent", options_.reporting_controller},
                     {"reportingInstance", Cut(options_.reporting_instance, kWordBytesMax)},
                     {"action", Cut(series->event.action, kWordBytesMax)},
                     {"reason", Cut(series->event.reason, kWordBytesMax)},
                     {"involvedObject",
                      {{"apiVersion", subject.api_version},
                       {"kind", subject.kind},
                       {"namespace", subject.namespace_name},
                       {"name", subject.name},
                       {"uid", subject.uid}}},
                     {"message", Cut(series->event.message, kMessageBytesMax)},
                     {"type", series->event.is_warning ? "Warning" : "Normal"}};
  series->told_count = series->count;
  series->told_at = series->last_seen;
  ++counts_.sent;
  return {id, Create(kEvents, space, DumpJson(body))};
}

EventRecorder::Outgoing EventRecorder::PatchOf(const std::string& id, Series* series) {
  const std::string& space = series->subject.namespace_name;
  const Json body = {{"count", series->count}, {"lastTimestamp", SecondTime(series->last_at)}};
  series->told_count = series->count;
  series->told_at = series->last_seen;
  ++counts_.sent;
  return {id, MergePatch(kEvents, space.empty() ? "default" : space, series->name, DumpJson(body))};
}

std::optional<EventRecorder::Outgoing> EventRecorder::OnResult(const Outgoing& sent,
                                                               const CallResult& result) {
  const auto known = series_.find(sent.id);
  if (known == series_.end() || RequireSuccess(result).ok()) {
    return std::nullopt;
  }
  const bool was_create = sent.request.verb == Verb::kCreate;
  switch (ToError(result).code()) {
    case ErrorCode::kNotFound:
      if (!was_create) {
        return CreateOf(sent.id, &known->second);  // the server keeps events for an hour
      }
      break;
    case ErrorCode::kAlreadyExists:
      if (was_create) {
        known->second.count = std::max<int64_t>(known->second.count, 2);  // told before we started
        return PatchOf(sent.id, &known->second);
      }
      break;
    default:
      break;
  }
  series_.erase(known);  // what happens next is told anew
  return std::nullopt;
}

TimePoint EventRecorder::DueAt(const Series& series) const {
  const TimePoint end = series.last_seen + options_.series_end;
  return series.count == series.told_count
             ? end
             : std::min(end, series.told_at + options_.series_refresh);
}

std::vector<EventRecorder::Outgoing> EventRecorder::Flush(TimePoint now) {
  std::vector<Outgoing> due;
  if (!next_flush_.has_value() || now < *next_flush_) {
    return due;
  }
  next_flush_.reset();
  for (auto entry = series_.begin(); entry != series_.end();) {
    auto& [id, series] = *entry;
    if (DueAt(series) <= now && series.count > series.told_count) {
      due.push_back(PatchOf(id, &series));
    }
    if (now - series.last_seen >= options_.series_end) {
      entry = series_.erase(entry);
      continue;
    }
    NoteDue(series);
    ++entry;
  }
  return due;
}

void EventRecorder::NoteDue(const Series& series) {
  const TimePoint due = DueAt(series);
  next_flush_ = next_flush_ ? std::min(*next_flush_, due) : due;
}

// Drops the oldest entry when there are too many. Linear, but only then.
template <typename Value>
void EventRecorder::KeepNewest(std::map<std::string, Value>* values, TimePoint Value::*age) const {
  if (values->size() <= options_.remembered_max) {
    return;
  }
  values->erase(
      std::min_element(values->begin(), values->end(), [age](const auto& a, const auto& b) {
        return a.second.*age < b.second.*age;
      }));
}

}  // namespace lockstep::control::kube
