#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/http/http_server.h"
#include "tests/fuzz/decoders.h"

namespace lockstep::fuzz {

// An HTTP server on loopback with one page, /page, for GET and POST. Its parser has no entry
// for bytes but the connection, so the inputs go in there.
class HttpProbe {
 public:
  HttpProbe();

  // Sends `bytes` and nothing more. Accepted: the page answered. A promise is broken when the page
  // is given a request other than HttpServerRequest says, or when the answer is not one of the
  // server's.
  Finding Ask(std::string_view bytes) const;

 private:
  // All that comes back until the server closes; empty when it resets the connection.
  std::string Exchange(std::string_view bytes) const;

  std::unique_ptr<Logger> logger_;
  std::unique_ptr<HttpServer> server_;  // logs through it, so it goes first
};

}  // namespace lockstep::fuzz
