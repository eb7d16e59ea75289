#pragma once

// For the two sources of the cpprestsdk transport only: the library's types appear here.

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cpprest/http_client.h>

#include "common/base/result.h"
#include "operator/kubeclient/transport/tls_context.h"
#include "operator/kubeclient/transport/transport_options.h"

namespace lockstep::control {

// Everything of one transport runs on its strand: one thing at a time, on the library's two
// threads.
using CpprestStrand = boost::asio::strand<boost::asio::io_context::executor_type>;

// The library's threads: two, for the whole process, for ever. It would start forty by itself.
boost::asio::io_context& CpprestThreads();

// One of the library's clients, with the connections that it keeps.
struct CpprestClient {
  std::unique_ptr<web::http::client::http_client> http;
  // Whether any connection was ever ready for a request; shared with the library's callbacks.
  std::shared_ptr<std::atomic<bool>> has_connected;
};

// A client of `endpoint` at `address`, with every setting that the library gets wrong by itself: no
// redirects, no time-outs but ours, no authorities but the given ones, the name checked by OpenSSL,
// TCP options on every socket.
CpprestClient MakeCpprestClient(const ApiEndpoint& endpoint,
                                const std::string& address,
                                const TlsMaterial& tls);

// The request as the library wants it, with the credentials' headers. The library cannot send one
// that changes something a second time.
web::http::http_request MakeCpprestRequest(const TransportOptions& options,
                                           const kube::Request& request,
                                           const CredentialSnapshot& credentials);

// What exchanges hold as long as they live: tells when the last of them is gone.
struct ReleaseSignal {
  ~ReleaseSignal() { all_released.set_value(); }

  std::promise<void> all_released;
};

// One request with its reply. Methods and the sink run on the strand. It lives until the library
// has let go of it, which may be a moment after its end.
class CpprestExchange final : public std::enable_shared_from_this<CpprestExchange> {
 public:
  CpprestExchange(const CpprestStrand& strand,
                  std::shared_ptr<ReleaseSignal> signal,
                  const StreamOptions& limits,
                  std::optional<TimePoint> deadline,
                  std::shared_ptr<StreamSink> sink);

  // Begins the time for connecting. Send or Close follows.
  void Begin();

  // `client` is kept until the end. `clock` is told of the reply, and outlives this; null: nobody.
  // Precondition (checked): Begin was called.
  void Send(std::shared_ptr<CpprestClient> client,
            web::http::http_request request,
            ServerClock* clock);

  void Resume();

  // Ends at once: the sink sees the end before this returns, unless it has seen it already.
  void Close(kube::FaultKind kind, const std::string& why);

  bool has_ended() const { return sink_ == nullptr; }

 private:
  class Buffer;

  // Bytes that the library waits to be rid of.
  struct Put {
    const uint8_t* bytes = nullptr;
    std::size_t count = 0;
    pplx::task_completion_event<std::size_t> taken;
  };

  void OnUploaded();
  void OnHeader(const pplx::task<web::http::http_response>& task);
  void OnPut(Put put);
  void OnReleased();
  void EndIfReleased();
  void OnComplete(const pplx::task<web::http::http_response>& task);
  void Deliver(Put put);
  void Fail(const web::http::http_exception& failure);
  void Finish(const std::optional<kube::Fault>& fault);
  void SetLimit(Duration timeout);
  void WaitForLimit();
  bool MayHaveBeenSent() const;

  CpprestStrand strand_;
  const std::shared_ptr<ReleaseSignal> signal_;  // shared with all exchanges of the transport
  const StreamOptions limits_;
  const std::optional<TimePoint> deadline_;
  std::shared_ptr<StreamSink> sink_;       // null: over
  std::shared_ptr<CpprestClient> client_;  // shared by the calls of one lane
  pplx::cancellation_token_source cancel_;
  boost::asio::steady_timer timer_;
  TimePoint limit_ = TimePoint::max();
  ServerClock* server_clock_ = nullptr;
  TimePoint sent_at_{};
  std::atomic<bool> is_sent_{false};  // set on the library's threads
  bool has_header_ = false;
  bool is_complete_ = false;  // the whole reply has come
  bool is_released_ = false;  // the connection is back with the client
  bool is_paused_ = false;
  std::optional<Put> held_;  // while paused, or until the header has come
};

}  // namespace lockstep::control
