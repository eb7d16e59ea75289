#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// Where an API server listens. A host is a name or a numeric address, without brackets.
struct ApiEndpoint {
  std::string host;
  uint16_t port = 443;
  bool is_tls = true;
  std::string base_path;  // put before every target: "/k8s/clusters/c-1"; usually empty

  // "https://[::1]:6443/prefix".
  std::string Url() const;

  friend bool operator==(const ApiEndpoint&, const ApiEndpoint&) = default;
};

// Calls of one lane never share a connection with, nor wait for, those of another: the renewal of
// the lease must not queue behind a burst of pods.
enum class CallLane { kShared, kLease };

struct CallOptions {
  Duration connect_timeout = std::chrono::seconds(5);      // name, TCP and TLS together
  Duration first_byte_timeout = std::chrono::seconds(30);  // from request sent to header read
  // From StartCall to the last byte, the wait for a free connection included.
  Duration total_timeout = std::chrono::seconds(30);
  std::size_t body_bytes_max = 64 * 1024 * 1024;  // a longer reply is a fault; choice
  CallLane lane = CallLane::kShared;
};

struct StreamOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  Duration first_byte_timeout = std::chrono::seconds(60);
  Duration idle_timeout = std::chrono::seconds(60);  // between two reads; stands still when paused
};

// What a sink wants after some bytes.
enum class StreamFlow {
  kMore,
  kPause,  // nothing is read until Transport::Resume; what the peer sends waits in its own kernel
  kStop,   // OnEnd follows, as kCancelled
};

// Takes in one streamed reply. Called by the transport in this order: OnStatus at most once,
// OnBytes any number of times, OnEnd exactly once, last.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) = 0;

  // Body bytes, cut anywhere, as they arrive; valid during the call only.
  virtual StreamFlow OnBytes(std::string_view bytes) = 0;

  // Over: cleanly and whole (null), or by a fault.
  virtual void OnEnd(const std::optional<kube::Fault>& fault) = 0;
};

using StreamId = StrongId<struct StreamTag>;

// HTTP/1.1 to one API server, for many callers at once. Adds host, credentials and User-Agent to
// each request; never follows a redirect, never sends anything twice.
//
// Faults say exactly what happened, and `request_sent` whether a write may have happened:
//
//   kRefused    nobody listens there, or no way leads there
//   kDns        the name has no address
//   kTls        the handshake failed: wrong CA, wrong name, refused certificate
//   kTimeout    a phase took too long, or the peer's host fell silent (noticed within 35 s by
//               keepalive and TCP_USER_TIMEOUT, even in the middle of a quiet watch)
//   kReset      the connection ended before a whole header, or what came is not HTTP
//   kTruncated  it ended in the middle of the body, or the body is longer than allowed
//   kCancelled  Cancel, a sink that said kStop, or the transport's destruction
//
// A 401 is reported to the credentials, which look for newer ones. When certificates change, all
// connections are closed: idle ones at once, calls after their reply, streams as kReset.
//
// Thread: methods any; callbacks come one at a time, never inside the caller's own call of
// StartCall or OpenStream, on a thread that belongs to the transport. They must not block.
class Transport {
 public:
  using Done = std::function<void(kube::CallResult)>;

  // Ends everything under way as kCancelled, drops what was to run later, and returns when no
  // callback is running.
  virtual ~Transport() = default;

  // Begins a call; `done` is called exactly once.
  virtual void StartCall(kube::Request request, const CallOptions& options, Done done) = 0;

  // Begins a streamed call on a connection of its own. `sink` is kept until OnEnd has returned.
  virtual StreamId OpenStream(kube::Request request,
                              const StreamOptions& options,
                              std::shared_ptr<StreamSink> sink) = 0;

  // Reads on after kPause. Unknown or ended streams are fine, here and in Cancel.
  virtual void Resume(StreamId id) = 0;

  // Ends a stream: OnEnd(kCancelled) follows within milliseconds, unless it has ended by itself.
  virtual void Cancel(StreamId id) = 0;

  // Runs `task` on the thread of the callbacks, after `delay`; those without delay in the order of
  // these calls.
  virtual void RunAfter(Duration delay, std::function<void()> task) = 0;
};

}  // namespace lockstep::control
