#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/reflector_core.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {

// Keeps a copy of one selection of objects up to date: initial state by a streaming list
// (WatchList) where the server has it, else by LIST; then WATCH, for ever, from where the last one
// ended. Survives bookmarks, 410, resource versions that are too new, half lines, and streams that
// end early, without losing or inventing a change. Decodes each object as its last byte arrives,
// so a LIST body is never held whole. A state machine without I/O or clock: the driver asks
// NextRequest, sends it when its time has come, hands over every byte, and says how it ended.
//
//   waiting --NextRequest--> listing | streaming list | watching --OnBytes*--> OnEnd --> waiting
//
// Thread: one. Source: client-go's tools/cache/reflector.go, for what follows from which failure.
template <typename T>
class Reflector {
 public:
  // Turns one object's JSON into a projection. An object that cannot be decoded is skipped and
  // counted: one odd pod must not stop the operator.
  using Decode = Result<Item<T>> (*)(std::string_view json);

  Reflector(ReflectorOptions options, Decode decode, uint64_t seed)
      : core_(
            std::move(options),
            [decode](std::string_view json) -> Result<Item<void>> {
              LOCKSTEP_ASSIGN_OR_RETURN(Item<T> item, decode(json));
              std::shared_ptr<const void> object = item.object;
              return Convert<void, T>(std::move(item), std::move(object));
            },
            seed) {}

  using Next = ReflectorCore::Next;

  // What to send next, and when. Precondition (checked): no exchange is open.
  Next NextRequest(TimePoint now) { return core_.NextRequest(now); }

  // The reply's status line came. Bytes of other than 2xx replies are collected as the error text.
  void OnStatus(int http_status) { core_.OnStatus(http_status); }

  // Body bytes, cut anywhere; appends what they mean to `updates`. Returns false when the exchange
  // must be ended by the driver (an ERROR event): OnEnd follows all the same.
  bool OnBytes(std::string_view bytes, std::vector<ObjectUpdate<T>>* updates) {
    std::vector<ObjectUpdate<void>> erased;
    const bool goes_on = core_.OnBytes(bytes, &erased);
    AppendTo(updates, std::move(erased));
    return goes_on;
  }

  // The exchange is over: cleanly (nullopt), or with a fault.
  void OnEnd(const std::optional<Fault>& fault,
             TimePoint now,
             std::vector<ObjectUpdate<T>>* updates) {
    std::vector<ObjectUpdate<void>> erased;
    core_.OnEnd(fault, now, &erased);
    AppendTo(updates, std::move(erased));
  }

  // Whether the first whole state was handed over.
  bool has_synced() const { return core_.has_synced(); }

  const ReflectorCounts& counts() const { return core_.counts(); }

  // Why the last exchange failed, or the last object was skipped; for logs. Empty: never.
  const std::string& last_failure() const { return core_.last_failure(); }

  // Why the server will not tell any more: it does not know such objects, or forbids to read them.
  // Empty: it does, or has not been reached since.
  const std::string& refusal() const { return core_.refusal(); }

  // Whether that is because the server does not know such objects: there are none.
  bool is_kind_unknown() const { return core_.is_kind_unknown(); }

 private:
  template <typename To, typename From>
  static Item<To> Convert(Item<From> item, std::shared_ptr<const To> object) {
    return {std::move(item.key),
            std::move(item.uid),
            std::move(item.resource_version),
            std::move(object)};
  }

  static Item<T> Restore(Item<void> item) {
    std::shared_ptr<const T> object = std::static_pointer_cast<const T>(item.object);
    return Convert<T, void>(std::move(item), std::move(object));
  }

  static void AppendTo(std::vector<ObjectUpdate<T>>* updates,
                       std::vector<ObjectUpdate<void>> erased) {
    for (ObjectUpdate<void>& update : erased) {
      if (auto* upserted = std::get_if<Upserted<void>>(&update)) {
        updates->emplace_back(Upserted<T>{Restore(std::move(upserted->item))});
      } else if (auto* deleted = std::get_if<Deleted<void>>(&update)) {
        updates->emplace_back(Deleted<T>{Restore(std::move(deleted->item))});
      } else {
        Replaced<T> replaced;
        for (Item<void>& item : std::get<Replaced<void>>(update).items) {
          replaced.items.push_back(Restore(std::move(item)));
        }
        updates->emplace_back(std::move(replaced));
      }
    }
  }

  ReflectorCore core_;
};

}  // namespace lockstep::control::kube
