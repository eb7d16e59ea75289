#include "operator/kubeclient/transport/testing/transport_test.h"

#include <utility>

#include "operator/kubeclient/transport/make_transport.h"

namespace lockstep::control {

void TransportTest::Serve(TestServer::Handler handler) {
  TestServerOptions options;
  options.identity = ServerIdentity();
  Serve(options, std::move(handler));
}

void TransportTest::Serve(const TestServerOptions& options, TestServer::Handler handler) {
  server_ = std::make_unique<TestServer>(options, std::move(handler));
  options_.endpoint.host = options.address;
  options_.endpoint.port = server_->port();
  options_.endpoint.is_tls = !options.identity.key_pem.empty();
}

void TransportTest::ServeOnSamePort(TestServerOptions options, TestServer::Handler handler) {
  options.port = server_->port();
  server_ = nullptr;
  Serve(options, std::move(handler));
}

Transport* TransportTest::transport() {
  if (transport_ == nullptr) {
    transport_ = MakeTransport(options_);
  }
  return transport_.get();
}

std::unique_ptr<Transport> TransportTest::MakeTransport(TransportOptions options) {
  options.credentials = &credentials_;
  options.logger = logger_.get();
  options.user_agent = "lockstep-test";
  options.connections_max = kConnectionsMax;
  options.sweep_period = std::chrono::milliseconds(10);
  auto made = control::MakeTransport(GetParam(), std::move(options));
  LOCKSTEP_CHECK(made.ok(), made.error().ToString());
  return std::move(made).value();
}

std::string TransportName(const ::testing::TestParamInfo<TransportKind>& info) {
  return info.param == TransportKind::kBeast ? "Beast" : "Cpprest";
}

}  // namespace lockstep::control
