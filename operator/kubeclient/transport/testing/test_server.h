#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "operator/kubeclient/transport/testing/test_authority.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep::control {

struct TestRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  int connection = 0;       // counts from 0 in the order of their coming
  std::string client_name;  // common name of the client's certificate; empty: none
};

// The server's end of one connection, while one request is answered: writes what it is told to,
// byte for byte. Every write may fail because the client has gone; the rest is then skipped.
class TestPeer {
 public:
  TestPeer(int socket, ssl_st* tls) : socket_(socket), tls_(tls) {}

  void Send(std::string_view bytes);

  // A whole reply, with its length. `headers` are lines that end in \r\n.
  void Reply(int status, std::string_view body, const std::string& headers = "");

  // The header of a chunked reply, then its parts, then its end.
  void BeginChunks(int status = 200);
  void Chunk(std::string_view bytes);
  void EndChunks();

  // The connection's end: as TLS and TCP say goodbye; without TLS's goodbye; by a reset.
  void Close();
  void CloseRudely();
  void Reset();

  // Blocks until the client's kernel knows of the end.
  void AwaitGoodbyeSeen();

  // From now on the kernel drops whatever comes in on this connection, unacknowledged: for the
  // client the host has vanished. Waits until the client has acknowledged all that was sent.
  void Vanish();

  // Blocks until the client has closed, or the server ends.
  void AwaitClose();

  bool is_open() const { return is_open_; }

 private:
  friend class TestServer;

  std::size_t Receive(char* bytes, std::size_t size);

  int socket_;
  ssl_st* tls_;  // null: plain
  bool is_open_ = true;
};

struct TestServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;          // 0: any free one
  TestIdentity identity;      // empty: plain HTTP
  std::string client_ca_pem;  // not empty: clients must show a certificate of this authority
};

// An HTTPS server on loopback that misbehaves on purpose: one thread a connection, each request
// answered by the handler in whatever way it likes. Destruction ends all connections.
class TestServer {
 public:
  using Handler = std::function<void(const TestRequest&, TestPeer&)>;

  TestServer(const TestServerOptions& options, Handler handler);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  uint16_t port() const { return port_; }

  // Connections that were accepted. Thread: any.
  int connection_count() const { return connection_count_; }

  // The most that were open at the same time.
  int open_count_max() const { return open_count_max_; }

  // What has arrived so far, in order. Thread: any.
  std::vector<TestRequest> requests() const;

 private:
  struct Connection;

  void Accept();
  void Serve(Connection* connection);
  bool ReadRequest(TestPeer* peer, std::string* buffer, TestRequest* request);

  Handler handler_;
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> tls_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> is_stopping_{false};
  std::atomic<int> connection_count_{0};
  std::atomic<int> open_count_{0};
  std::atomic<int> open_count_max_{0};
  mutable std::mutex mutex_;
  std::vector<TestRequest> requests_;                   // guarded by mutex_
  std::list<std::unique_ptr<Connection>> connections_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace lockstep::control
