#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {

// What an Event is about.
struct EventSubject {
  std::string api_version;
  std::string kind;
  std::string namespace_name;
  std::string name;
  std::string uid;
};

struct EventText {
  bool is_warning = false;
  std::string reason;   // one CamelCase word
  std::string action;   // what was done; one CamelCase word
  std::string message;  // cut to what the server takes
};

struct EventRecorderOptions {
  std::string reporting_controller = "lockstep.dev/operator";
  std::string reporting_instance;  // this process

  // Source of the defaults: client-go's tools/record and tools/events.
  int similar_max = 10;  // messages of one kind within `similar_window`; more are told as one
  Duration similar_window = std::chrono::minutes(10);
  int burst = 25;  // events of one object, and then one each `refill`
  Duration refill = std::chrono::minutes(5);
  Duration series_refresh = std::chrono::minutes(30);  // while something goes on happening
  Duration series_end = std::chrono::minutes(6);       // it has not happened for so long
  std::size_t remembered_max = 4096;
};

struct EventCounts {
  int64_t sent = 0;     // requests made
  int64_t merged = 0;   // told by the count of an earlier one
  int64_t dropped = 0;  // too many about one object
};

// Turns what happens into Events, without flooding the server: the same again becomes the series
// of the first, many of a kind become one, and an object that causes too many falls silent.
//
//   new ------------------> create
//   again, first time ----> patch: a series of 2
//   again ----------------> counted; patched every `series_refresh`, and when it is over
//
// Event names follow from what is said, so that a repeated create finds the first.
// A state machine without I/O or clock. Thread: one.
class EventRecorder {
 public:
  explicit EventRecorder(EventRecorderOptions options) : options_(std::move(options)) {}

  struct Outgoing {
    std::string id;  // for OnResult
    Request request;
  };

  // What to send about it, if anything.
  std::optional<Outgoing> Record(const EventSubject& subject,
                                 const EventText& event,
                                 TimePoint now,
                                 WallTime wall_now);

  // What to send after that answer, if anything: a series whose event the server has forgotten is
  // told anew; an event that is there already becomes a series.
  std::optional<Outgoing> OnResult(const Outgoing& sent, const CallResult& result);

  // Series that are due. To be called when NextFlush says so.
  std::vector<Outgoing> Flush(TimePoint now);

  // No series is due before; null: there is none. Constant time: it is asked for with every event.
  std::optional<TimePoint> NextFlush() const { return next_flush_; }

  const EventCounts& counts() const { return counts_; }

 private:
  // One event on the server.
  struct Series {
    EventSubject subject;
    EventText event;
    std::string name;
    WallTime first_at{};
    WallTime last_at{};
    TimePoint last_seen{};
    TimePoint told_at{};
    int64_t count = 1;
    int64_t told_count = 1;
  };

  // Events of one object and reason.
  struct Kind {
    TimePoint window_begin{};
    std::set<std::string> messages;
  };

  // What one object may still cause.
  struct Bucket {
    double tokens = 0;
    TimePoint filled_at{};
  };

  bool IsAllowed(const std::string& object, TimePoint now);
  bool IsOneOfMany(const std::string& kind, const std::string& message, TimePoint now);
  Outgoing CreateOf(const std::string& id, Series* series);
  Outgoing PatchOf(const std::string& id, Series* series);
  TimePoint DueAt(const Series& series) const;
  void NoteDue(const Series& series);
  template <typename Value>
  void KeepNewest(std::map<std::string, Value>* values, TimePoint Value::*age) const;

  EventRecorderOptions options_;
  EventCounts counts_;
  std::map<std::string, Series> series_;  // by id
  std::optional<TimePoint> next_flush_;
  std::map<std::string, Kind> kinds_;
  std::map<std::string, Bucket> buckets_;  // by object
};

}  // namespace lockstep::control::kube
