#include "trainer-runtime/capi/api_error.h"

#include <array>

namespace lockstep::runtime {
namespace {

// Longer sentences are cut: those that list 64 missing ranks with the error of each. Choice.
constexpr std::size_t kSentenceBytesMax = 4096;

// Of plain bytes, so that nothing has to be made or torn down for a thread.
thread_local std::array<char, kSentenceBytesMax> sentence{};  // NOLINT: what the C ABI asks for
thread_local int system_number = 0;                           // NOLINT: likewise

}  // namespace

lockstep_status StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnknownField:
    case ErrorCode::kMissingField:
      return LOCKSTEP_ERROR_INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return LOCKSTEP_ERROR_NOT_MET;
    case ErrorCode::kTimeout:
      return LOCKSTEP_ERROR_TIMEOUT;
    case ErrorCode::kPeerLost:
      return LOCKSTEP_ERROR_LOST_PEER;
    case ErrorCode::kMismatch:
      return LOCKSTEP_ERROR_MISMATCH;
    case ErrorCode::kStale:
      return LOCKSTEP_ERROR_SUPERSEDED;
    case ErrorCode::kAborted:
      return LOCKSTEP_ERROR_ABORTED;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kUnavailable:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kIo:
      return LOCKSTEP_ERROR_SYSTEM;
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      return LOCKSTEP_ERROR_INTERNAL;
  }
  return LOCKSTEP_ERROR_INTERNAL;
}

ApiOutcome OutcomeOf(const Error& error) {
  return {StatusOf(error.code()), error.ToString(), error.system_number()};
}

ApiOutcome OutcomeOf(const Status& status) {
  return status.ok() ? ApiOutcome() : OutcomeOf(status.error());
}

ApiOutcome InvalidArgument(std::string text) {
  return {LOCKSTEP_ERROR_INVALID_ARGUMENT, std::move(text), 0};
}

lockstep_status Tell(const ApiOutcome& outcome) noexcept {
  if (!outcome.ok()) {
    const std::size_t end = outcome.sentence.copy(sentence.data(), sentence.size() - 1);
    sentence[end] = '\0';
    system_number = outcome.system_number;
  }
  return outcome.status;
}

void ForgetSentence() noexcept {
  sentence[0] = '\0';
  system_number = 0;
}

const char* LastSentence() noexcept {
  return sentence.data();
}

int LastSystemNumber() noexcept {
  return system_number;
}

}  // namespace lockstep::runtime
