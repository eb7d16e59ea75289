#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "operator/kubeclient/transport/credentials.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL
struct X509_VERIFY_PARAM_st;

namespace lockstep::control {

// Sets up a client's context: TLS 1.2 or newer, HTTP/1.1, no authority but the given ones, the
// client certificate. Whatever the context trusted before is forgotten.
// Errors: kInvalidArgument (not PEM, key and certificate do not belong together); the message holds
// no part of the material. Source: OpenSSL 3.
Status ConfigureTls(ssl_ctx_st* context, const TlsMaterial& material);

// Says which name or address a peer's certificate must carry; its common name does not count.
// Errors: kInvalidArgument (a name that cannot be one).
Status ExpectPeer(X509_VERIFY_PARAM_st* verification, const std::string& name);

// What the connections of one client have in common.
class TlsContext {
 public:
  // Errors: as ConfigureTls.
  static Result<std::shared_ptr<const TlsContext>> Make(const TlsMaterial& material);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // A new reference to the context, for the caller to own.
  ssl_ctx_st* Share() const;

  // Says whom a connection to `host` expects at the other end. Before the handshake.
  // Errors: kInvalidArgument (a name that cannot be one).
  Status Expect(ssl_st* connection, const std::string& host) const;

 private:
  TlsContext(ssl_ctx_st* context, std::string server_name)
      : context_(context), server_name_(std::move(server_name)) {}

  ssl_ctx_st* context_;
  std::string server_name_;
};

// Why the peer's certificate was refused: "self-signed certificate in certificate chain"; empty if
// it was not.
std::string VerificationProblem(const ssl_st* connection);

// Whether `host` is an address and not a name.
bool IsNumericAddress(const std::string& host);

}  // namespace lockstep::control
