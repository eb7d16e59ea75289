#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "operator/kubeclient/transport/credentials.h"
#include "operator/kubeclient/transport/testing/test_authority.h"
#include "operator/kubeclient/transport/testing/test_server.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

// Longer than anything in a test takes, however busy the machine.
inline constexpr auto kPatience = std::chrono::seconds(60);

// Version 1: this authority is believed, and we are nobody.
CredentialSnapshot TrustOnly(const std::string& ca_pem);

// Credentials that a test changes while they are in use. Thread: any.
class TestCredentials final : public Credentials {
 public:
  explicit TestCredentials(CredentialSnapshot first);

  std::shared_ptr<const CredentialSnapshot> Current() const override;
  void ReportRefused(uint64_t version) override;
  CredentialSearch LookForNewer(uint64_t version) override;

  void SetToken(const std::string& token);
  void SetTls(const TlsMaterial& tls);

  // What ReportRefused brings: called with the lock released, at most once a version.
  void SetOnRefused(std::function<void()> on_refused);

  int refused_count() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const CredentialSnapshot> current_;  // shared with requests under way
  std::function<void()> on_refused_;
  int refused_count_ = 0;
};

// Collects a stream, for one thread to wait for.
class TestSink final : public StreamSink {
 public:
  // Answers OnBytes; called on the transport's thread with all bytes so far. Null: always kMore.
  using Flow = std::function<StreamFlow(const std::string& bytes)>;

  explicit TestSink(Flow flow = nullptr) : flow_(std::move(flow)) {}

  void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) override;
  StreamFlow OnBytes(std::string_view bytes) override;
  void OnEnd(const std::optional<kube::Fault>& fault) override;

  // Waits until so many bytes have come. Returns whether they have.
  bool AwaitBytes(std::size_t count);

  // Waits for the end. Returns whether it came.
  bool AwaitEnd(Duration patience = kPatience);

  int status() const;
  std::string bytes() const;
  std::optional<kube::Fault> fault() const;
  std::optional<std::chrono::seconds> retry_after() const;

 private:
  const Flow flow_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0;
  std::optional<std::chrono::seconds> retry_after_;
  std::string bytes_;
  bool has_ended_ = false;
  std::optional<kube::Fault> fault_;
};

// Counts a stream's bytes without keeping them.
class CountingSink final : public StreamSink {
 public:
  // Answers OnBytes, on the transport's thread.
  using Flow = std::function<StreamFlow(std::size_t byte_count)>;

  explicit CountingSink(Flow flow) : flow_(std::move(flow)) {}

  void OnStatus(int, std::optional<std::chrono::seconds>) override {}

  StreamFlow OnBytes(std::string_view bytes) override;
  void OnEnd(const std::optional<kube::Fault>& fault) override;

  // Waits until the sink has said kPause once more, or the end. Returns whether either came.
  bool AwaitPause();

  // Waits for the end. Returns whether it came.
  bool AwaitEnd();

 private:
  const Flow flow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int pause_count_ = 0;  // not yet waited for
  bool has_ended_ = false;
};

// Calls and waits.
kube::CallResult CallAndWait(Transport* transport,
                             kube::Request request,
                             const CallOptions& options = {});

// "GET /target", or the like, without a body.
kube::Request RequestFor(const std::string& method, const std::string& target);

// "404" or "timeout": what a result is, for comparing.
std::string Outcome(const kube::CallResult& result);

}  // namespace lockstep::control
