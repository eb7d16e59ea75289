#pragma once

#include <compare>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::control::kube {

struct ObjectKey {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// One object out of a list or watch. `T` is the projection; shared because stores, updates and
// readers hold the same immutable value.
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

}  // namespace lockstep::control::kube
