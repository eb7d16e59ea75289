#include "common/base/error.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

ErrorCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // above the limit of the process or of the file system
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::kResourceExhausted;
    // The path itself is wrong, or closed to this user: no later try finds it otherwise.
    case EACCES:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EROFS:
      return ErrorCode::kInvalidArgument;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

Error Error::WithSystemNumber(int error_number) && {
  system_number_ = error_number;
  return std::move(*this);
}

Error Error::WithField(std::string field) && {
  field_ = std::move(field);
  return std::move(*this);
}

Error Error::Wrap(std::string message) && {
  const ErrorCode code = code_;
  const int system_number = system_number_;
  auto cause = std::make_shared<const Error>(std::move(*this));
  Error outer(code, std::move(message));
  outer.cause_ = std::move(cause);
  outer.system_number_ = system_number;
  return outer;
}

std::string Error::ToString() const {
  std::string text = field_.empty() ? message_ : field_ + ": " + message_;
  for (const Error* inner = cause(); inner != nullptr; inner = inner->cause()) {
    text += ": ";
    if (!inner->field_.empty()) {
      text += inner->field_ + ": ";
    }
    text += inner->message_;
  }
  return text;
}

Error SystemError(int error_number, std::string_view what) {
  return Error(CodeOfErrno(error_number),
               std::string(what) + ": " + std::generic_category().message(error_number))
      .WithSystemNumber(error_number);
}

}  // namespace lockstep
