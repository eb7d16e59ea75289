#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "operator/kubeclient/transport/testing/transport_fixture.h"
#include "operator/kubeclient/transport/transport_options.h"

namespace lockstep::control {

inline constexpr int kConnectionsMax = 8;

// One implementation against a server of the test's own making, over TLS.
class TransportTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  // Before anything goes that the server's handler or a callback may use.
  void TearDown() override {
    transport_ = nullptr;
    server_ = nullptr;
  }

  // Starts the server with a certificate for its address.
  void Serve(TestServer::Handler handler);

  // The same, as the options say.
  void Serve(const TestServerOptions& options, TestServer::Handler handler);

  // Replaces the server by another that listens in the same place.
  void ServeOnSamePort(TestServerOptions options, TestServer::Handler handler);

  void StopServer() { server_ = nullptr; }

  // Ends the server when a test's scope ends, before what is declared above it goes: the handler
  // refers to that, and a request may come as late as this.
  class ServerEnd {
   public:
    explicit ServerEnd(TransportTest* test) : test_(test) {}

    ~ServerEnd() { test_->StopServer(); }

    ServerEnd(const ServerEnd&) = delete;
    ServerEnd& operator=(const ServerEnd&) = delete;

   private:
    TransportTest* const test_;
  };

  bool IsCpprest() const { return GetParam() == TransportKind::kCpprest; }

  // The transport to the server, made at the first call.
  Transport* transport();

  // What the transport is made with; to be changed before the first call of transport().
  TransportOptions& options() { return options_; }

  TestServer& server() { return *server_; }

  TestCredentials& credentials() { return credentials_; }

  const TestAuthority& authority() const { return authority_; }

  TestIdentity ServerIdentity() const {
    return authority_.Issue("api", {"IP:127.0.0.1", "IP:::1", "DNS:localhost"});
  }

  std::unique_ptr<Transport> MakeTransport(TransportOptions options);

  // Ends the transport now.
  void CloseTransport() { transport_.reset(); }

 private:
  TestAuthority authority_{"lockstep test"};
  TestCredentials credentials_{TrustOnly(authority_.certificate_pem())};
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  TransportOptions options_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Transport> transport_;  // last: it uses the others
};

std::string TransportName(const ::testing::TestParamInfo<TransportKind>& info);

}  // namespace lockstep::control

#define LOCKSTEP_FOR_ALL_TRANSPORTS(suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(All,                                                               \
                           suite,                                                             \
                           ::testing::Values(TransportKind::kBeast, TransportKind::kCpprest), \
                           TransportName)
