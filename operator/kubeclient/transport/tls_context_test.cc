#include "operator/kubeclient/transport/tls_context.h"

#include <dlfcn.h>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "operator/kubeclient/transport/testing/test_authority.h"
#include "operator/kubeclient/transport/transport_plugin.h"

namespace lockstep::control {
namespace {

// Two copies of OpenSSL, one linked and one that came with another library, take each other's calls
// and crash sooner or later. Every function must come from the library that libssl uses.
TEST(OpenSsl, IsInThisProcessOnce) {
  void* const shared = ::dlopen("libcrypto.so.3", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(shared, nullptr) << "libssl is linked, so its libcrypto must be here";
  EXPECT_EQ(::dlsym(shared, "EVP_sha256"), reinterpret_cast<void*>(&EVP_sha256));
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "EVP_sha256"), ::dlsym(shared, "EVP_sha256"));
  ::dlclose(shared);
}

// C++ objects cross between program and library.
TEST(TransportStamp, LibraryOfAnotherBuildIsRefusedWithBothStamps) {
  EXPECT_TRUE(CheckTransportStamp("a.so", TransportStamp()).ok());
  const Status refused = CheckTransportStamp("a.so", "version 0.1.0, compiler 13");
  EXPECT_EQ(refused.error().code(), ErrorCode::kMismatch);
  EXPECT_NE(refused.error().message().find("version 0.1.0, compiler 13 found, expected version"),
            std::string::npos);
  EXPECT_NE(TransportStamp().find(__VERSION__), std::string::npos);
}

struct BadMaterial {
  const char* name;
  TlsMaterial material;
  const char* says;
};

TEST(TlsContext, MaterialThatCannotBeUsedIsNamedAndNotShown) {
  const TestAuthority authority("ca");
  const TestIdentity one = authority.Issue("one", {});
  const TestIdentity other = authority.Issue("other", {});
  const std::string& ca = authority.certificate_pem();
  TlsMaterial no_ca;
  no_ca.ca_pem = "hunter2";
  TlsMaterial no_certificate;
  no_certificate.ca_pem = ca;
  no_certificate.certificate_pem = "hunter2";
  no_certificate.key_pem = one.key_pem;
  TlsMaterial no_key = no_certificate;
  no_key.certificate_pem = one.certificate_pem;
  no_key.key_pem = "hunter2";
  TlsMaterial strangers = no_key;
  strangers.key_pem = other.key_pem;
  for (const BadMaterial& bad :
       {BadMaterial{"authority", no_ca, "authority is not a PEM"},
        BadMaterial{"certificate", no_certificate, "client certificate is not a PEM"},
        BadMaterial{"key", no_key, "client key is not an unencrypted PEM"},
        BadMaterial{"pair", strangers, "do not belong together"}}) {
    SCOPED_TRACE(bad.name);
    const auto made = TlsContext::Make(bad.material);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(made.error().message().find(bad.says), std::string::npos) << made.error().message();
    EXPECT_EQ(made.error().message().find("hunter2"), std::string::npos);
  }
}

TEST(IsNumericAddress, TellsAddressesFromNames) {
  for (const char* address : {"127.0.0.1", "::1", "fd00::1"}) {
    EXPECT_TRUE(IsNumericAddress(address)) << address;
  }
  for (const char* name : {"", "localhost", "1.2.3", "api.cluster", "[::1]"}) {
    EXPECT_FALSE(IsNumericAddress(name)) << name;
  }
}

}  // namespace
}  // namespace lockstep::control
