#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::control {

struct HttpRequest {
  std::string method = "GET";
  std::string address;  // numeric IP address
  uint16_t port = 0;
  std::string target = "/";
  std::map<std::string, std::string> headers;
  std::string body;
  // Of the answer's body, where the client's own bound is no tighter; 0: that.
  std::size_t answer_bytes_max = 0;
};

struct HttpResponse {
  int status = 0;
  std::string body;
};

// Plain HTTP/1.1 calls to the processes of a job, many at a time: each on a connection of its own,
// all on one thread that belongs to this object. Source: Boost.Beast.
class HttpClient {
 public:
  // Called on the client's thread, exactly once a call; must not block.
  // Errors: kTimeout, kPeerLost (refused, reset, closed early: its host says that the process is
  // gone), kUnavailable (nothing was heard: no way to the host, no descriptor left here), kCorrupt
  // (not HTTP, or a body above the limit), kInvalidArgument (no numeric address), kAborted (the
  // client was destroyed).
  using Done = std::function<void(Result<HttpResponse>)>;

  explicit HttpClient(std::size_t body_bytes_max);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Ends all calls with kAborted before it returns.
  ~HttpClient();

  // Begins a call; the timeout covers it from connecting to the last byte. Thread: any.
  void Start(HttpRequest request, Duration timeout, Done done);

  // The same, waiting for the answer. Thread: any but the client's own.
  Result<HttpResponse> Call(HttpRequest request, Duration timeout);

 private:
  class Core;  // keeps Boost out of this header

  std::unique_ptr<Core> core_;
};

}  // namespace lockstep::control
