// How calls fail, for every implementation: exact classes, and whether the request was sent.

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"
#include "operator/kubeclient/transport/make_transport.h"
#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using kube::FaultKind;
using std::chrono::milliseconds;

class TransportFault : public TransportTest {
 protected:
  static void Answer(const TestRequest&, TestPeer& peer) { peer.Reply(200, "{}"); }

  // A server with this certificate.
  void ServeAs(const TestIdentity& identity) {
    TestServerOptions server;
    server.identity = identity;
    Serve(server, &Answer);
  }

  CallResult Get(const CallOptions& call = {}) {
    return CallAndWait(transport(), RequestFor("GET", "/"), call);
  }

  // The fault of a GET that must fail.
  Fault GetFault(const CallOptions& call = {}) {
    const CallResult result = Get(call);
    const auto* fault = std::get_if<Fault>(&result);
    EXPECT_NE(fault, nullptr) << Outcome(result);
    return fault != nullptr ? *fault : Fault{FaultKind::kNotLeader, false, "no fault"};
  }
};

TEST_P(TransportFault, NobodyListensIsRefused) {
  Serve(&Answer);
  StopServer();
  const Fault fault = GetFault();
  EXPECT_EQ(fault.kind, FaultKind::kRefused) << fault.message;
  EXPECT_FALSE(fault.request_sent);
}

TEST_P(TransportFault, NameWithoutAddressIsDns) {
  Serve(&Answer);
  options().endpoint.host = std::string(64, 'x') + ".invalid";  // too long to be asked for
  CallOptions call;
  call.connect_timeout = kPatience;
  call.total_timeout = kPatience;
  const Fault fault = GetFault(call);
  EXPECT_EQ(fault.kind, FaultKind::kDns) << fault.message;
  EXPECT_FALSE(fault.request_sent);
}

TEST_P(TransportFault, ServerOfAnotherAuthorityIsTls) {
  const TestAuthority other("somebody else");
  ServeAs(other.Issue("api", {"IP:127.0.0.1"}));
  const Fault fault = GetFault();
  EXPECT_EQ(fault.kind, FaultKind::kTls) << fault.message;
  EXPECT_FALSE(fault.request_sent);
  EXPECT_TRUE(server().requests().empty());
}

TEST_P(TransportFault, CertificateForAnotherNameIsTls) {
  ServeAs(authority().Issue("api", {"IP:127.0.0.2", "DNS:other"}));
  EXPECT_EQ(GetFault().kind, FaultKind::kTls);
  EXPECT_TRUE(server().requests().empty());
}

TEST_P(TransportFault, CommonNameAloneIsNotEnough) {
  ServeAs(authority().Issue("127.0.0.1", {"DNS:other"}));
  EXPECT_EQ(GetFault().kind, FaultKind::kTls);
}

TEST_P(TransportFault, NameIsCheckedWhereTheHostIsOne) {
  ServeAs(authority().Issue("api", {"DNS:localhost"}));
  options().endpoint.host = "localhost";
  EXPECT_EQ(Outcome(Get()), "200");
}

TEST_P(TransportFault, ServerNameCountsInsteadOfTheHost) {
  ServeAs(authority().Issue("api", {"DNS:api.cluster"}));
  TlsMaterial tls = credentials().Current()->tls;
  tls.server_name = "api.cluster";
  credentials().SetTls(tls);
  EXPECT_EQ(Outcome(Get()), "200");
}

TEST_P(TransportFault, ServerIsNotCheckedWhereTheUserSaysSo) {
  const TestAuthority other("somebody else");
  ServeAs(other.Issue("api", {"DNS:other"}));
  TlsMaterial tls;
  tls.verifies_server = false;
  credentials().SetTls(tls);
  EXPECT_EQ(Outcome(Get()), "200");
}

TEST_P(TransportFault, ServerThatSpeaksNoTlsIsNotSentTheRequest) {
  TestServerOptions plain;
  Serve(plain, &Answer);
  options().endpoint.is_tls = true;
  CallOptions call;
  call.connect_timeout = milliseconds(500);  // a server that waits for plain text says nothing
  const Fault fault = GetFault(call);
  EXPECT_FALSE(fault.request_sent);
  EXPECT_TRUE(server().requests().empty());
}

TEST_P(TransportFault, PlainHttpWorksWhereTheUrlSaysSo) {
  Serve(TestServerOptions{}, &Answer);
  EXPECT_EQ(Outcome(Get()), "200");
}

TEST_P(TransportFault, Ipv6HostIsReached) {
  if (IsCpprest()) {
    GTEST_SKIP() << "cpprestsdk cannot connect to an IPv6 address; MakeCpprestTransport says so";
  }
  const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) != 0) {
    GTEST_SKIP() << "this machine has no IPv6 loopback";
  }
  TestServerOptions server_options;
  server_options.address = "::1";
  server_options.identity = ServerIdentity();
  Serve(server_options, &Answer);
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(server().requests().at(0).headers.at("host"),
            "[::1]:" + std::to_string(server().port()));
}

TEST_P(TransportFault, ClientCertificateIsShown) {
  TestServerOptions server_options;
  server_options.identity = ServerIdentity();
  server_options.client_ca_pem = authority().certificate_pem();
  Serve(server_options, &Answer);
  const TestIdentity jane = authority().Issue("jane", {});
  TlsMaterial tls = credentials().Current()->tls;
  tls.certificate_pem = jane.certificate_pem;
  tls.key_pem = jane.key_pem;
  credentials().SetTls(tls);
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(server().requests().at(0).client_name, "jane");
}

TEST_P(TransportFault, MissingClientCertificateIsTls) {
  TestServerOptions server_options;
  server_options.identity = ServerIdentity();
  server_options.client_ca_pem = authority().certificate_pem();
  Serve(server_options, &Answer);
  // TLS 1.3 tells the client after its handshake: then the connection may be seen to end instead.
  const FaultKind kind = GetFault().kind;
  EXPECT_TRUE(kind == FaultKind::kTls || kind == FaultKind::kReset);
  EXPECT_TRUE(server().requests().empty());
}

TEST_P(TransportFault, NewCertificateIsUsedFromTheNextCallOn) {
  TestServerOptions server_options;
  server_options.identity = ServerIdentity();
  server_options.client_ca_pem = authority().certificate_pem();
  Serve(server_options, &Answer);
  for (const char* name : {"jane", "john"}) {
    const TestIdentity identity = authority().Issue(name, {});
    TlsMaterial tls = credentials().Current()->tls;
    tls.certificate_pem = identity.certificate_pem;
    tls.key_pem = identity.key_pem;
    credentials().SetTls(tls);
    EXPECT_EQ(Outcome(Get()), "200");
    EXPECT_EQ(server().requests().back().client_name, name);
  }
}

TEST_P(TransportFault, RotatedCertificatesEndStreams) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("x");
    peer.AwaitClose();
  });
  const auto sink = std::make_shared<TestSink>();
  transport()->OpenStream(RequestFor("GET", "/"), {}, sink);
  ASSERT_TRUE(sink->AwaitBytes(1));
  TlsMaterial tls = credentials().Current()->tls;
  tls.ca_pem += TestAuthority("newer").certificate_pem();
  credentials().SetTls(tls);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kReset);
}

TEST_P(TransportFault, RotatedAuthorityIsBelieved) {
  Serve(&Answer);
  EXPECT_EQ(Outcome(Get()), "200");
  const TestAuthority newer("newer");
  TestServerOptions server_options;
  server_options.identity = newer.Issue("api", {"IP:127.0.0.1"});
  ServeOnSamePort(server_options, &Answer);
  EXPECT_EQ(GetFault().kind, FaultKind::kTls);
  TlsMaterial tls;
  tls.ca_pem = newer.certificate_pem();
  credentials().SetTls(tls);
  EXPECT_EQ(Outcome(Get()), "200");
}

// A key without its certificate: seen while the two files are replaced one after the other.
TEST_P(TransportFault, UnusableMaterialIsNotTakenUp) {
  Serve(&Answer);
  EXPECT_EQ(Outcome(Get()), "200");
  TlsMaterial tls = credentials().Current()->tls;
  tls.certificate_pem = authority().Issue("a", {}).certificate_pem;
  tls.key_pem = authority().Issue("b", {}).key_pem;
  credentials().SetTls(tls);
  EXPECT_EQ(Outcome(Get()), "200");
}

TEST_P(TransportFault, RedirectIsAnAnswer) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.Reply(302, "", "Location: https://elsewhere/\r\n");
  });
  credentials().SetToken("secret");
  EXPECT_EQ(Outcome(Get()), "302");
  EXPECT_EQ(server().requests().size(), 1U);
}

TEST_P(TransportFault, SilenceTimesOutByPhase) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.method == "POST") {
      peer.BeginChunks();
      peer.Chunk("x");
    }
    peer.AwaitClose();
  });
  CallOptions no_header;
  no_header.first_byte_timeout = milliseconds(50);
  no_header.total_timeout = kPatience;
  EXPECT_EQ(GetFault(no_header).kind, FaultKind::kTimeout);
  CallOptions no_end;
  no_end.total_timeout = milliseconds(200);
  const CallResult result = CallAndWait(transport(), RequestFor("POST", "/"), no_end);
  ASSERT_EQ(Outcome(result), "timeout");
  const bool has_arrived = server().requests().back().method == "POST";
  EXPECT_TRUE(std::get<Fault>(result).request_sent || !has_arrived);
}

// A host that takes connections, by its kernel, and never a byte.
TEST_P(TransportFault, HandshakeThatNeverEndsTimesOut) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  auto* const generic = reinterpret_cast<sockaddr*>(&where);
  ASSERT_EQ(::bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), generic, &size), 0);
  options().endpoint.host = "127.0.0.1";
  options().endpoint.port = ntohs(where.sin_port);
  CallOptions call;
  call.connect_timeout = milliseconds(50);
  const Fault fault = GetFault(call);
  EXPECT_EQ(fault.kind, FaultKind::kTimeout);
  EXPECT_FALSE(fault.request_sent);
}

TEST_P(TransportFault, WaitForAConnectionCountsToo) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.AwaitClose(); });
  std::vector<std::future<void>> hanging;
  for (int i = 0; i < kConnectionsMax; ++i) {
    auto ended = std::make_shared<std::promise<void>>();
    hanging.push_back(ended->get_future());
    CallOptions call;
    call.total_timeout = kPatience;
    call.first_byte_timeout = kPatience;
    transport()->StartCall(
        RequestFor("GET", "/"), call, [ended](const CallResult&) { ended->set_value(); });
  }
  CallOptions call;
  call.total_timeout = milliseconds(50);
  const Fault fault = GetFault(call);
  EXPECT_EQ(fault.kind, FaultKind::kTimeout);
  EXPECT_FALSE(fault.request_sent);
  CloseTransport();
  for (auto& ended : hanging) {
    ended.get();
  }
}

TEST_P(TransportFault, EndOfTheTransportCancelsEverything) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.AwaitClose(); });
  std::vector<std::future<std::string>> outcomes;
  for (int i = 0; i < 3 * kConnectionsMax; ++i) {
    auto outcome = std::make_shared<std::promise<std::string>>();
    outcomes.push_back(outcome->get_future());
    transport()->StartCall(RequestFor("GET", "/"), {}, [outcome](const CallResult& result) {
      outcome->set_value(Outcome(result));
    });
  }
  const auto sink = std::make_shared<TestSink>();
  transport()->OpenStream(RequestFor("GET", "/"), {}, sink);
  bool has_run = false;
  transport()->RunAfter(std::chrono::hours(1), [&] { has_run = true; });
  CloseTransport();
  for (auto& outcome : outcomes) {
    EXPECT_EQ(outcome.get(), "cancelled");
  }
  EXPECT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kCancelled);
  EXPECT_FALSE(has_run);
}

struct BadAnswer {
  const char* name;
  const char* text;
  FaultKind kind;
};

constexpr BadAnswer kBadAnswers[] = {
    {"nothing", "", FaultKind::kReset},
    {"half a header", "HTTP/1.1 200 OK\r\nContent-", FaultKind::kReset},
    {"another protocol", "SSH-2.0-OpenSSH\r\n\r\n", FaultKind::kReset},
    {"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", FaultKind::kTruncated},
    {"half a chunk",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ncut",
     FaultKind::kTruncated},
    {"no last chunk",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n",
     FaultKind::kTruncated},
};

TEST_P(TransportFault, CutAndForeignAnswersAreTold) {
  for (const BadAnswer& bad : kBadAnswers) {
    SCOPED_TRACE(bad.name);
    CloseTransport();
    const ServerEnd end(this);
    Serve([&](const TestRequest&, TestPeer& peer) {
      peer.Send(bad.text);
      peer.Close();
    });
    const Fault fault = GetFault();
    EXPECT_EQ(fault.kind, bad.kind) << fault.message;
    EXPECT_TRUE(fault.request_sent);
  }
}

TEST_P(TransportFault, ReplyLongerThanAllowedIsTruncated) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(200, std::string(100'000, 'x')); });
  CallOptions call;
  call.body_bytes_max = 1000;
  EXPECT_EQ(GetFault(call).kind, FaultKind::kTruncated);
  call.body_bytes_max = 100'000;
  EXPECT_EQ(Outcome(Get(call)), "200");
}

TEST_P(TransportFault, LargeRepliesAreWhole) {
  const std::string body(20 * 1024 * 1024, 'x');  // above the default limits of HTTP libraries
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) { peer.Reply(200, body); });
  const CallResult result = Get();
  ASSERT_EQ(Outcome(result), "200");
  EXPECT_EQ(std::get<kube::Reply>(result).body.size(), body.size());
}

TEST_P(TransportFault, LargeRequestsAreWhole) {
  Serve(&Answer);
  kube::Request request = RequestFor("POST", "/");
  request.body.assign(3 * 1024 * 1024, 'x');  // the most that API servers take
  EXPECT_EQ(Outcome(CallAndWait(transport(), request)), "200");
  EXPECT_EQ(server().requests().at(0).body.size(), request.body.size());
}

TEST_P(TransportFault, BasePathComesBeforeTheTarget) {
  Serve(&Answer);
  options().endpoint.base_path = "/k8s/clusters/c-1";
  EXPECT_EQ(Outcome(CallAndWait(transport(), RequestFor("GET", "/api?x=1"))), "200");
  EXPECT_EQ(server().requests().at(0).target, "/k8s/clusters/c-1/api?x=1");
}

TEST_P(TransportFault, OldConnectionsAreRenewed) {
  Serve(&Answer);
  options().connection_age_max = Duration::zero();
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(server().connection_count(), 2);
}

TEST_P(TransportFault, IdleConnectionsAreNotUsedForLong) {
  Serve(&Answer);
  options().connection_idle_max = Duration::zero();
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(Outcome(Get()), "200");
  EXPECT_EQ(server().connection_count(), 2);
}

LOCKSTEP_FOR_ALL_TRANSPORTS(TransportFault);

// What the library cannot do is refused when the operator starts.
TEST(CpprestTransport, RefusesWhatItCannotDo) {
  const auto logger = MakeNullLogger();
  FixedCredentials nobody{CredentialSnapshot{}};
  TransportOptions options;
  options.logger = logger.get();
  options.credentials = &nobody;
  options.endpoint.host = "::1";
  EXPECT_EQ(MakeTransport(TransportKind::kCpprest, options).error().code(),
            ErrorCode::kInvalidArgument);
  CredentialSnapshot snapshot;
  snapshot.headers = {{"Impersonate-Group", "a"}, {"Impersonate-Group", "b"}};
  FixedCredentials groups{snapshot};
  options.endpoint.host = "127.0.0.1";
  options.credentials = &groups;
  EXPECT_EQ(MakeTransport(TransportKind::kCpprest, options).error().code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::control
