#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/sim/object_store.h"

namespace lockstep::control::sim {

// Stored objects as values, each version read once. Looked up by address, never iterated. What was
// handed out lasts until kEntriesMax others have been read.
template <typename T>
class DecodedCache {
 public:
  using Decode = T (*)(const Json& object);

  explicit DecodedCache(Decode decode) : decode_(decode) {}

  const T& Of(const ObjectPtr& object) {
    if (entries_.size() > kEntriesMax) {
      older_ = std::exchange(entries_, {});
    }
    const auto found = entries_.find(object.get());
    if (found != entries_.end()) {
      return found->second->second;
    }
    auto entry = std::make_unique<std::pair<ObjectPtr, T>>(object, decode_(*object));
    return (entries_[object.get()] = std::move(entry))->second;
  }

 private:
  static constexpr std::size_t kEntriesMax = 1000;  // choice: more than one world's live objects

  Decode decode_;
  // The object is kept, so that its address stays its own.
  std::unordered_map<const Json*, std::unique_ptr<std::pair<ObjectPtr, T>>> entries_;
  std::unordered_map<const Json*, std::unique_ptr<std::pair<ObjectPtr, T>>> older_;
};

}  // namespace lockstep::control::sim
