#include "operator/kubeclient/transport/testing/test_authority.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/base/check.h"
#include "common/base/digest.h"

namespace lockstep::control {
namespace {

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)>;

constexpr long kHour = 60 * 60;

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  LOCKSTEP_CHECK(key != nullptr, "no key");
  return key;
}

template <typename Write>
std::string Pem(Write write) {
  const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
  LOCKSTEP_CHECK(write(bio.get()) == 1, "no PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string CertificatePem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void Extend(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()),
                               &X509_EXTENSION_free);
  LOCKSTEP_CHECK(extension != nullptr, "bad extension: " + value);
  X509_add_ext(certificate, extension.get(), -1);
}

// A certificate that nobody has signed yet.
X509Ptr NewCertificate(const std::string& common_name, EVP_PKEY* key) {
  X509Ptr certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), std::stol(RandomHex(7), nullptr, 16));
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 24 * kHour);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()),
                             "CN",
                             MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()),
                             -1,
                             -1,
                             0);
  return certificate;
}

}  // namespace

struct TestAuthority::Keys {
  KeyPtr key = NewKey();
  X509Ptr certificate{nullptr, &X509_free};
};

TestAuthority::TestAuthority(const std::string& name) : keys_(std::make_unique<Keys>()) {
  keys_->certificate = NewCertificate(name, keys_->key.get());
  X509* const own = keys_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  Extend(own, own, NID_basic_constraints, "critical,CA:TRUE");
  Extend(own, own, NID_key_usage, "critical,keyCertSign");
  X509_sign(own, keys_->key.get(), EVP_sha256());
  certificate_pem_ = CertificatePem(own);
}

TestAuthority::~TestAuthority() = default;

TestIdentity TestAuthority::Issue(const std::string& common_name,
                                  const std::vector<std::string>& names) const {
  const KeyPtr key = NewKey();
  const X509Ptr certificate = NewCertificate(common_name, key.get());
  X509* const issuer = keys_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  if (!names.empty()) {
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "" : ",") + name;
    }
    Extend(certificate.get(), issuer, NID_subject_alt_name, list);
  }
  X509_sign(certificate.get(), keys_->key.get(), EVP_sha256());
  TestIdentity identity;
  identity.certificate_pem = CertificatePem(certificate.get());
  identity.key_pem = Pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return identity;
}

}  // namespace lockstep::control
