#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::control {

// What TLS needs to know. All PEM.
struct TlsMaterial {
  std::string ca_pem;           // the only authorities that are believed; empty: the system's
  std::string certificate_pem;  // of this client, with its chain; empty: none
  std::string key_pem;
  std::string server_name;  // expected in the server's certificate; empty: the endpoint's host
  bool verifies_server = true;

  friend bool operator==(const TlsMaterial&, const TlsMaterial&) = default;
};

// Everything that proves who we are, at one moment. Holds secrets: never logged.
struct CredentialSnapshot {
  uint64_t version = 0;                                      // grows with every change
  uint64_t tls_version = 0;                                  // grows when `tls` changes
  std::vector<std::pair<std::string, std::string>> headers;  // Authorization, Impersonate-User, ...
  TlsMaterial tls;
};

// What has come of the search for newer credentials.
enum class CredentialSearch { kFound, kNothing, kGoesOn };

// Where credentials come from. Thread: any.
class Credentials {
 public:
  virtual ~Credentials() = default;

  // What a request sent now carries; never null, never blocks.
  virtual std::shared_ptr<const CredentialSnapshot> Current() const = 0;

  // The server answered 401 to a request that carried `version`: looks for something newer, unless
  // there is already. Never blocks.
  virtual void ReportRefused(uint64_t version) = 0;

  // Whether there is something newer than `version`, or may be soon. Never blocks.
  virtual CredentialSearch LookForNewer(uint64_t version) = 0;
};

// The same for ever.
class FixedCredentials final : public Credentials {
 public:
  explicit FixedCredentials(CredentialSnapshot snapshot);

  std::shared_ptr<const CredentialSnapshot> Current() const override { return snapshot_; }

  void ReportRefused(uint64_t) override {}

  CredentialSearch LookForNewer(uint64_t) override { return CredentialSearch::kNothing; }

 private:
  std::shared_ptr<const CredentialSnapshot> snapshot_;  // shared with requests under way
};

}  // namespace lockstep::control
