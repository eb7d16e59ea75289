#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/time.h"
#include "operator/kubeclient/transport/server_clock.h"
#include "operator/kubeclient/transport/tls_context.h"
#include "operator/kubeclient/transport/transport.h"

namespace boost::asio {
class io_context;
}

namespace lockstep::control {

// One exchange of a request for a reply, and how long its phases may take.
struct HttpExchange {
  std::string request_text;
  StreamOptions limits;
  std::optional<TimePoint> deadline;  // of all of it
  std::shared_ptr<StreamSink> sink;
  ServerClock* server_clock = nullptr;  // null: nobody asks
};

// One connection to an API server; carries one exchange after the other.
//
//   new -> resolving -> connecting -> handshaking -> sending -> header -> body <-> paused
//                                                      ^                   |
//                                                      +------ idle <------+      any -> closed
//
// Every arrow is a completion on the thread of `io`, which is also the only one that may call.
// Source: Boost.Beast reads the reply; the request is a text already.
class HttpConnection {
 public:
  // `tls` is null for plain HTTP. `io` outlives the connection.
  HttpConnection(boost::asio::io_context* io,
                 const ApiEndpoint& endpoint,
                 std::shared_ptr<const TlsContext> tls);

  // Closes; a sink that has not seen its end does not see it any more.
  ~HttpConnection();

  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Precondition (checked): new, or IsReusable().
  void Begin(HttpExchange exchange);

  // Reads on after the sink said kPause.
  void Resume();

  // Closes at once; the sink of a running exchange sees the end before this returns.
  void Close(kube::FaultKind kind, const std::string& why);

  // Whether another exchange can be tried: the last one ended cleanly, the server keeps the
  // connection open, and nothing unexpected, such as its end, has come since.
  bool IsReusable() const;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;  // shared with the handlers of pending operations
};

}  // namespace lockstep::control
