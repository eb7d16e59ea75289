#pragma once

#include <memory>
#include <utility>

namespace lockstep {

// A value that many may hold at the price of a pointer; whoever changes it has a copy of its own.
// Thread: all holders of one value on the same one.
template <typename T>
class CopyOnWrite {
 public:
  CopyOnWrite() : CopyOnWrite(T()) {}

  CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }

  const T* operator->() const { return value_.get(); }

  // To be changed; what others hold stays as it is. Valid until this is copied.
  T& Edit() {
    if (value_.use_count() > 1) {
      value_ = std::make_shared<T>(*value_);
    }
    return *value_;
  }

  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.value_ == b.value_ || *a.value_ == *b.value_;
  }

 private:
  std::shared_ptr<T> value_;  // never null, unless moved from
};

}  // namespace lockstep
