#pragma once

#include <utility>

namespace lockstep {

// Owns one file descriptor and closes it. Empty when the descriptor is negative.
class UniqueFd {
 public:
  UniqueFd() = default;

  explicit UniqueFd(int fd) noexcept : fd_(fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  ~UniqueFd() { Reset(); }

  bool is_open() const { return fd_ >= 0; }

  // The descriptor, still owned here; -1 when empty.
  int get() const { return fd_; }

  // Gives the descriptor away.
  [[nodiscard]] int Release() noexcept { return std::exchange(fd_, -1); }

  // Closes now. Safe when empty.
  void Reset() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace lockstep
