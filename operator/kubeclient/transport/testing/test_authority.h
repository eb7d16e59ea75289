#pragma once

#include <memory>
#include <string>
#include <vector>

namespace lockstep::control {

// A certificate with its key, as PEM.
struct TestIdentity {
  std::string certificate_pem;
  std::string key_pem;
};

// A certificate authority that lives as long as a test. Keys are P-256; certificates are valid from
// an hour ago for a day. Source: OpenSSL 3.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  const std::string& certificate_pem() const { return certificate_pem_; }

  // A certificate for whoever has these names: "DNS:localhost", "IP:127.0.0.1".
  TestIdentity Issue(const std::string& common_name, const std::vector<std::string>& names) const;

 private:
  struct Keys;

  std::unique_ptr<Keys> keys_;
  std::string certificate_pem_;
};

}  // namespace lockstep::control
