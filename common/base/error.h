#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

// Why an operation failed, as a closed list: callers branch on the code and never parse text.
enum class ErrorCode {
  kInvalidArgument,    // the caller's input is wrong and stays wrong
  kUnknownField,       // it has a field, or a word of a list, that a newer version may know
  kMissingField,       // it lacks a field, for which one that is not known may stand
  kNotFound,           // the named thing does not exist
  kAlreadyExists,      // the named thing exists and must not
  kTimeout,            // the deadline passed
  kPeerLost,           // another rank's process or connection is gone
  kMismatch,           // two ranks disagree on what they are doing
  kStale,              // the request belongs to an older epoch or incarnation
  kAborted,            // stopped from outside by Abort() or a stop request
  kUnavailable,        // the other side is not reachable now; trying again may help
  kResourceExhausted,  // no room: disk, memory, GPUs, descriptors
  kCorrupt,            // bytes that fail their hash, length or syntax
  kIo,                 // the operating system refused an operation
  kInternal,           // a fault of ours
};

// A failure as a value: code, one sentence, and where it came from.
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }

  const std::string& message() const { return message_; }

  // Path of the input field at fault, such as "spec.roles[0].replicas"; empty if none.
  const std::string& field() const { return field_; }

  // The failure that led to this one; null if this is the origin.
  const Error* cause() const { return cause_.get(); }

  // The errno that the operating system gave; 0 if this is no error of the system.
  int system_number() const { return system_number_; }

  // This error with that errno.
  Error WithSystemNumber(int error_number) &&;

  // This error, naming the input field at fault.
  Error WithField(std::string field) &&;

  // A new error of the same code and errno whose cause is this one: context added on the way up.
  Error Wrap(std::string message) &&;

  // "field: message: cause's message ...", one line.
  std::string ToString() const;

 private:
  ErrorCode code_;
  std::string message_;
  std::string field_;
  int system_number_ = 0;
  std::shared_ptr<const Error> cause_;  // shared: errors are copied, causes never change
};

// Error{kIo} (kResourceExhausted: disk or descriptor table full; kNotFound: ENOENT;
// kInvalidArgument: a path that is closed or no file) saying `what` and the system's text for
// `error_number`.
Error SystemError(int error_number, std::string_view what);

}  // namespace lockstep
