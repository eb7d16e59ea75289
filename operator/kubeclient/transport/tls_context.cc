#include "operator/kubeclient/transport/tls_context.h"

#include <array>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace lockstep::control {
namespace {

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using StorePtr = std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)>;

BioPtr ReadingFrom(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
}

// Without this an encrypted key would be asked for on the terminal.
int NoPassword(char*, int, int, void*) {
  return 0;
}

X509Ptr NextCertificate(BIO* from) {
  return X509Ptr(PEM_read_bio_X509(from, nullptr, &NoPassword, nullptr), &X509_free);
}

Error Invalid(std::string message) {
  ERR_clear_error();
  return Error(ErrorCode::kInvalidArgument, std::move(message));
}

Status Trust(SSL_CTX* context, const std::string& ca_pem) {
  StorePtr store(X509_STORE_new(), &X509_STORE_free);
  const BioPtr source = ReadingFrom(ca_pem);
  int count = 0;
  while (const X509Ptr authority = NextCertificate(source.get())) {
    X509_STORE_add_cert(store.get(), authority.get());
    ++count;
  }
  ERR_clear_error();  // "no more PEM"
  if (count == 0) {
    return Invalid("the certificate authority is not a PEM certificate");
  }
  SSL_CTX_set_cert_store(context, store.release());
  return OkStatus();
}

Status Present(SSL_CTX* context, const TlsMaterial& material) {
  const BioPtr chain = ReadingFrom(material.certificate_pem);
  const X509Ptr own = NextCertificate(chain.get());
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return Invalid("the client certificate is not a PEM certificate");
  }
  while (const X509Ptr next = NextCertificate(chain.get())) {
    SSL_CTX_add1_chain_cert(context, next.get());
  }
  const BioPtr source = ReadingFrom(material.key_pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(source.get(), nullptr, &NoPassword, nullptr),
                   &EVP_PKEY_free);
  if (key == nullptr) {
    return Invalid("the client key is not an unencrypted PEM key");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Invalid("the client key and the client certificate do not belong together");
  }
  ERR_clear_error();
  return OkStatus();
}

}  // namespace

Status ConfigureTls(ssl_ctx_st* context, const TlsMaterial& material) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(context, kHttp11.data(), kHttp11.size());
  if (!material.ca_pem.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(Trust(context, material.ca_pem));
  } else if (SSL_CTX_set_default_verify_paths(context) != 1) {
    return Invalid("the system's certificate authorities cannot be read");
  }
  SSL_CTX_set_verify(
      context, material.verifies_server ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!material.certificate_pem.empty() || !material.key_pem.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(Present(context, material));
  }
  return OkStatus();
}

Status ExpectPeer(X509_VERIFY_PARAM_st* verification, const std::string& name) {
  X509_VERIFY_PARAM_set_hostflags(
      verification, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool is_set =
      IsNumericAddress(name)
          ? X509_VERIFY_PARAM_set1_ip_asc(verification, name.c_str()) == 1
          : X509_VERIFY_PARAM_set1_host(verification, name.c_str(), name.size()) == 1;
  return is_set ? OkStatus() : Status(Invalid("\"" + name + "\" is not a valid name of a server"));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::Make(const TlsMaterial& material) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  LOCKSTEP_CHECK(context != nullptr, "not enough memory for a TLS context");
  std::shared_ptr<const TlsContext> made(new TlsContext(context, material.server_name));
  LOCKSTEP_RETURN_IF_ERROR(ConfigureTls(context, material));
  return made;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

ssl_ctx_st* TlsContext::Share() const {
  SSL_CTX_up_ref(context_);
  return context_;
}

Status TlsContext::Expect(ssl_st* connection, const std::string& host) const {
  const std::string& name = server_name_.empty() ? host : server_name_;
  LOCKSTEP_RETURN_IF_ERROR(ExpectPeer(SSL_get0_param(connection), name));
  // An address is never sent as a server name (RFC 6066).
  if (!IsNumericAddress(name) && SSL_set_tlsext_host_name(connection, name.c_str()) != 1) {
    return Invalid("\"" + name + "\" is not a valid name of a server");
  }
  return OkStatus();
}

std::string VerificationProblem(const ssl_st* connection) {
  const auto problem = SSL_get_verify_result(connection);
  return problem == X509_V_OK ? "" : X509_verify_cert_error_string(problem);
}

bool IsNumericAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

}  // namespace lockstep::control
