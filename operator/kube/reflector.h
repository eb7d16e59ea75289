#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/prng.h"
#include "common/base/time.h"
#include "operator/kube/request.h"

namespace lockstep::control::kube {

struct ObjectKey {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// One object out of the stream. `T` is the projection; shared because stores, updates and readers
// hold the same immutable value.
template <typename T>
struct Item {
  ObjectKey key;
  std::string uid;
  std::string resource_version;
  std::shared_ptr<const T> object;
};

template <typename T>
struct Replaced {
  std::vector<Item<T>> items;  // the whole selection; what is not in it is gone
};

template <typename T>
struct Upserted {
  Item<T> item;
};

template <typename T>
struct Deleted {
  Item<T> item;  // the last state
};

// The order of updates is the order in which the server made them.
template <typename T>
using ObjectUpdate = std::variant<Replaced<T>, Upserted<T>, Deleted<T>>;

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
  int64_t relists = 0;   // after "too old"
  int64_t failures = 0;  // exchanges that ended in an error
};

// Keeps a copy of one selection of objects up to date: initial state by a streaming list
// (WatchList) where the server has it, else by LIST; then WATCH, for ever, from where the last one
// ended. Survives bookmarks, 410, resource versions that are too new, half lines, and streams that
// end early, without losing or inventing a change. Decodes each object as its last byte arrives,
// so a LIST body is never held whole. A state machine without I/O or clock: the driver asks
// NextRequest, sends it when its time has come, hands over every byte, and says how it ended.
//
//   waiting --NextRequest--> listing | streaming list | watching --OnBytes*--> OnEnd --> waiting
//
// Thread: one.
template <typename T>
class Reflector {
 public:
  // Turns one object's JSON into a projection. An object that cannot be decoded is skipped and
  // counted: one odd pod must not stop the operator.
  using Decode = Result<Item<T>> (*)(std::string_view json);

  Reflector(ReflectorOptions options, Decode decode, uint64_t seed);

  struct Next {
    TimePoint not_before{};  // back-off
    Request request;
  };

  // What to send next. Precondition (checked): no exchange is open.
  Next NextRequest(TimePoint now);

  // The reply's status line came. Bytes of other than 2xx replies are collected as the error text.
  void OnStatus(int http_status);

  // Body bytes, cut anywhere; appends what they mean to `updates`. Returns false when the exchange
  // must be ended by the driver (an ERROR event): OnEnd follows all the same.
  bool OnBytes(std::string_view bytes, std::vector<ObjectUpdate<T>>* updates);

  // The exchange is over: cleanly (nullopt), or with a fault.
  void OnEnd(const std::optional<Fault>& fault,
             TimePoint now,
             std::vector<ObjectUpdate<T>>* updates);

  // Whether the first whole state was handed over.
  bool has_synced() const;

  const ReflectorCounts& counts() const;
};

}  // namespace lockstep::control::kube
