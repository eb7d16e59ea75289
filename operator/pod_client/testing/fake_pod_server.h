#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/io/unique_fd.h"

namespace lockstep::control {

// How long tests wait for an answer: a loaded machine may take seconds.
inline constexpr std::chrono::seconds kAnswerPatience{20};

// For tests: what listens at a pod's port, on loopback and a free port. Its clients go before it.
class FakePodServer {
 public:
  // Says `answer`, byte for byte, to every question, one connection after the other. Null: accepts
  // and never answers, which is what a stopped process looks like.
  explicit FakePodServer(std::optional<std::string> answer);

  ~FakePodServer();

  FakePodServer(const FakePodServer&) = delete;
  FakePodServer& operator=(const FakePodServer&) = delete;

  uint16_t port() const { return port_; }

  // The head of the question that was answered last. Thread: any.
  std::string request() const;

 private:
  void Serve(const std::string& answer);

  UniqueFd listener_;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::string request_;  // guarded by that
  std::jthread thread_;
};

}  // namespace lockstep::control
