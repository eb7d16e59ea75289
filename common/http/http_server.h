#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep {

struct HttpServerRequest {
  std::string method;                                       // upper case
  std::string path;                                         // without the query
  std::string query;                                        // what follows the '?'
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;

  // The header's value; empty when absent. `name` in lower case.
  std::string_view Header(std::string_view name) const;
};

struct HttpServerResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

// Answers one request on the server's thread: must return at once and must not throw.
using HttpHandler = std::function<HttpServerResponse(const HttpServerRequest&)>;

// Handlers by path, then by method. An unknown path answers 404, an unknown method 405.
using HttpRoutes = std::map<std::string, std::map<std::string, HttpHandler>>;

struct HttpServerOptions {
  std::string bind_address = "0.0.0.0";
  int port = 0;                             // 0: any free one
  std::size_t header_bytes_max = 8 * 1024;  // enough for every client seen; choice
  std::size_t body_bytes_max = 64 * 1024;   // a control message is under 1 KiB; choice
  // Above this the connection that has been sending its request for longest is closed, so that
  // callers who never finish cannot keep others out; without such a one, the new one. Choice.
  int connections_max = 64;
  // For a whole connection, from accept to the last byte of its answer: slow readers cannot hold
  // a place. Choice: ten times what a scrape over a bad network takes.
  Duration connection_deadline = std::chrono::seconds(5);
  // Called on the server's thread for each request that no handler sees, with the status it is
  // answered by: 400, 413 or 431. May be null.
  std::function<void(int status)> on_unreadable;
  Logger* logger = nullptr;  // outlives the server; required
};

// A small HTTP/1.1 server on its own thread, one request for each connection.
// Source: Boost.Beast. Destruction stops accepting, ends open connections and joins the thread.
class HttpServer {
 public:
  // Errors: kInvalidArgument (address), kAlreadyExists (port taken), kIo; each names the address.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, HttpRoutes routes);

  // The same with one handler for all paths and methods.
  static Result<std::unique_ptr<HttpServer>> StartWithHandler(HttpServerOptions options,
                                                              HttpHandler handler);

  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port that is listened on. Thread: any.
  int port() const;

 private:
  class Core;

  explicit HttpServer(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace lockstep
