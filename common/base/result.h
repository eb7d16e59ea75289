#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/error.h"

namespace lockstep {

// Either a T or an Error. The build fails where a returned Result is ignored.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: a value is a Result

  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: so is an error

  bool ok() const { return state_.index() == 0; }

  // The value. Precondition (checked): ok().
  T& value() & {
    RequireOk();
    return std::get<0>(state_);
  }

  const T& value() const& {
    RequireOk();
    return std::get<0>(state_);
  }

  T value() && {
    RequireOk();
    return std::get<0>(std::move(state_));
  }

  // The error. Precondition (checked): !ok().
  const Error& error() const& {
    LOCKSTEP_CHECK(!ok(), "error() called on a Result that holds a value");
    return std::get<1>(state_);
  }

  Error error() && {
    LOCKSTEP_CHECK(!ok(), "error() called on a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

  T* operator->() { return &value(); }

  const T* operator->() const { return &value(); }

  T& operator*() & { return value(); }

  const T& operator*() const& { return value(); }

 private:
  void RequireOk() const {
    LOCKSTEP_CHECK(ok(), "value() called on a failed Result: " + std::get<1>(state_).ToString());
  }

  std::variant<T, Error> state_;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(Error error) : error_(std::move(error)) {}  // NOLINT: an error is a Status

  bool ok() const { return !error_.has_value(); }

  // The error. Precondition (checked): !ok().
  const Error& error() const& {
    LOCKSTEP_CHECK(!ok(), "error() called on an ok Status");
    return *error_;
  }

  Error error() && {
    LOCKSTEP_CHECK(!ok(), "error() called on an ok Status");
    return *std::move(error_);
  }

 private:
  std::optional<Error> error_;
};

inline Status OkStatus() {
  return Status();
}

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

// Returns the error of `expression` (a Status or Result) from the calling function, if it has one.
#define LOCKSTEP_RETURN_IF_ERROR(expression)                      \
  if (auto lockstep_status = (expression); !lockstep_status.ok()) \
  return std::move(lockstep_status).error()

// Declares or assigns `target` from the Result `expression`, or returns its error.
#define LOCKSTEP_ASSIGN_OR_RETURN(target, expression) \
  LOCKSTEP_ASSIGN_OR_RETURN_IMPL(LOCKSTEP_CONCAT(lockstep_result_, __LINE__), target, expression)
#define LOCKSTEP_ASSIGN_OR_RETURN_IMPL(name, target, expression) \
  auto name = (expression);                                      \
  if (!name.ok())                                                \
    return std::move(name).error();                              \
  target = std::move(name).value()
