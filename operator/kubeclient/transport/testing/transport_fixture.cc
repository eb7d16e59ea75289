#include "operator/kubeclient/transport/testing/transport_fixture.h"

#include <algorithm>
#include <future>
#include <utility>

namespace lockstep::control {

CredentialSnapshot TrustOnly(const std::string& ca_pem) {
  CredentialSnapshot snapshot;
  snapshot.version = 1;
  snapshot.tls_version = 1;
  snapshot.tls.ca_pem = ca_pem;
  return snapshot;
}

TestCredentials::TestCredentials(CredentialSnapshot first)
    : current_(std::make_shared<const CredentialSnapshot>(std::move(first))) {}

std::shared_ptr<const CredentialSnapshot> TestCredentials::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void TestCredentials::ReportRefused(uint64_t version) {
  std::function<void()> on_refused;
  {
    const std::lock_guard lock(mutex_);
    ++refused_count_;
    if (version == current_->version) {
      on_refused = std::exchange(on_refused_, nullptr);
    }
  }
  if (on_refused) {
    on_refused();
  }
}

CredentialSearch TestCredentials::LookForNewer(uint64_t version) {
  const std::lock_guard lock(mutex_);
  return current_->version > version ? CredentialSearch::kFound : CredentialSearch::kNothing;
}

void TestCredentials::SetToken(const std::string& token) {
  const std::lock_guard lock(mutex_);
  CredentialSnapshot next = *current_;
  ++next.version;
  next.headers = {{"Authorization", "Bearer " + token}};
  current_ = std::make_shared<const CredentialSnapshot>(std::move(next));
}

void TestCredentials::SetTls(const TlsMaterial& tls) {
  const std::lock_guard lock(mutex_);
  CredentialSnapshot next = *current_;
  ++next.version;
  ++next.tls_version;
  next.tls = tls;
  current_ = std::make_shared<const CredentialSnapshot>(std::move(next));
}

void TestCredentials::SetOnRefused(std::function<void()> on_refused) {
  const std::lock_guard lock(mutex_);
  on_refused_ = std::move(on_refused);
}

int TestCredentials::refused_count() const {
  const std::lock_guard lock(mutex_);
  return refused_count_;
}

void TestSink::OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) {
  const std::lock_guard lock(mutex_);
  status_ = http_status;
  retry_after_ = retry_after;
  changed_.notify_all();
}

StreamFlow TestSink::OnBytes(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  bytes_.append(bytes);
  changed_.notify_all();
  return flow_ ? flow_(bytes_) : StreamFlow::kMore;
}

void TestSink::OnEnd(const std::optional<kube::Fault>& fault) {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  fault_ = fault;
  changed_.notify_all();
}

bool TestSink::AwaitBytes(std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return bytes_.size() >= count || has_ended_; });
}

bool TestSink::AwaitEnd(Duration patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return has_ended_; });
}

int TestSink::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::string TestSink::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::optional<kube::Fault> TestSink::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

std::optional<std::chrono::seconds> TestSink::retry_after() const {
  const std::lock_guard lock(mutex_);
  return retry_after_;
}

StreamFlow CountingSink::OnBytes(std::string_view bytes) {
  const StreamFlow flow = flow_(bytes.size());
  if (flow == StreamFlow::kPause) {
    const std::lock_guard lock(mutex_);
    ++pause_count_;
    changed_.notify_all();
  }
  return flow;
}

void CountingSink::OnEnd(const std::optional<kube::Fault>&) {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

bool CountingSink::AwaitPause() {
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait_for(lock, kPatience, [&] { return pause_count_ > 0 || has_ended_; });
  pause_count_ = std::max(0, pause_count_ - 1);
  return came;
}

bool CountingSink::AwaitEnd() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return has_ended_; });
}

kube::CallResult CallAndWait(Transport* transport,
                             kube::Request request,
                             const CallOptions& options) {
  auto answer = std::make_shared<std::promise<kube::CallResult>>();
  auto future = answer->get_future();
  transport->StartCall(std::move(request), options, [answer](kube::CallResult result) {
    answer->set_value(std::move(result));
  });
  return future.get();  // bounded: every call is answered
}

kube::Request RequestFor(const std::string& method, const std::string& target) {
  kube::Request request;
  request.verb = method == "GET" ? kube::Verb::kGet : kube::Verb::kCreate;
  request.method = method;
  request.target = target;
  return request;
}

std::string Outcome(const kube::CallResult& result) {
  if (const auto* reply = std::get_if<kube::Reply>(&result)) {
    return std::to_string(reply->status);
  }
  return std::string(kube::FaultKindName(std::get<kube::Fault>(result).kind));
}

}  // namespace lockstep::control
