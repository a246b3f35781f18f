#include "signature/receipt_key.h"

#include <algorithm>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/hex.h"
#include "tenon/io/sha256.h"

#ifdef TENON_HAS_OPENSSL
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#endif

namespace program {
namespace {

using tenon::Error;

#ifdef TENON_HAS_OPENSSL

constexpr std::uint64_t kMostBytes = 16 << 10;  // of a PEM file
constexpr std::size_t kSignatureBytes = 64;     // RFC 8032
constexpr const char* kHowToMake = "; make one with: (umask 077; openssl genpkey -algorithm ed25519 > FILE)";
constexpr const char* kHowToPublish = "; make one with: openssl pkey -in KEY -pubout > FILE";

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

[[noreturn]] void fail() { throw Error(Error::Kind::internal, "receipt", "OpenSSL has no memory for a signature"); }

// Refuses keys with a password. Without this function OpenSSL would ask for the password at the terminal.
int no_password(char*, int, int, void*) { return -1; }

// read: PEM_read_bio_PrivateKey or PEM_read_bio_PUBKEY. what: the error text if `read` finds no key in the file.
// how: the end of error texts, which says how to make such a file.
template <class Read>
std::shared_ptr<EVP_PKEY> read_key(const std::string& flag, const std::filesystem::path& file, Read read,
                                   const std::string& what, const char* how) {
  const std::string where = flag + " " + file.string();
  std::string text;
  try {
    text = tenon::read_text_file(file, kMostBytes);
  } catch (const Error& error) {
    throw Error(error.kind(), where, error.what());
  }
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (!bio) fail();
  const std::shared_ptr<EVP_PKEY> key(read(bio.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  std::fill(text.begin(), text.end(), '\0');
  if (!key) throw Error(Error::Kind::invalid_file, where, what + how);
  if (EVP_PKEY_base_id(key.get()) != EVP_PKEY_ED25519) {
    const char* const kind = OBJ_nid2sn(EVP_PKEY_base_id(key.get()));
    throw Error(Error::Kind::unsupported, where,
                std::string("is a key of the kind ") + (kind ? kind : "?") + "; Ed25519 is needed" + how);
  }
  return key;
}

std::string id_of(EVP_PKEY* key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(key, &bytes);
  if (size <= 0) fail();
  const std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return tenon::Sha256().update(der).hex().substr(0, 16);
}

const unsigned char* bytes_of(const std::string& text) { return reinterpret_cast<const unsigned char*>(text.data()); }

#else

[[noreturn]] void refuse_without_openssl(const std::string& flag) {
  throw Error(Error::Kind::unsupported, flag,
              "this program was built without OpenSSL, which signatures need (Debian: libssl-dev)");
}

#endif

}  // namespace

#ifdef TENON_HAS_OPENSSL

ReceiptPublicKey::ReceiptPublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)), id_(id_of(key_.get())) {}

ReceiptPublicKey ReceiptPublicKey::read(const std::string& flag, const std::filesystem::path& file) {
  return ReceiptPublicKey(read_key(flag, file, PEM_read_bio_PUBKEY, "holds no public key in PEM", kHowToPublish));
}

ReceiptKey ReceiptKey::read(const std::string& flag, const std::filesystem::path& file) {
  return ReceiptKey(
      read_key(flag, file, PEM_read_bio_PrivateKey, "holds no private key in PEM without a password", kHowToMake));
}

std::string ReceiptPublicKey::pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PUBKEY(bio.get(), key()) != 1) fail();
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

bool ReceiptPublicKey::verifies(const tenon::Receipt& receipt) const {
  const std::string signature = tenon::bytes_of_hex(receipt.signature).value_or(""), text = tenon::signed_text(receipt);
  const Context context(EVP_MD_CTX_new());
  if (!context || EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key()) != 1) fail();
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
}

tenon::Receipt ReceiptKey::sign(tenon::Receipt receipt) const {
  receipt.key = id();
  const std::string text = tenon::signed_text(receipt);
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  const Context context(EVP_MD_CTX_new());
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes_of(text),
                     text.size()) != 1)
    fail();
  receipt.signature = tenon::hex_of(signature);
  return receipt;
}

#else

ReceiptPublicKey ReceiptPublicKey::read(const std::string& flag, const std::filesystem::path&) {
  refuse_without_openssl(flag);
}
ReceiptKey ReceiptKey::read(const std::string& flag, const std::filesystem::path&) { refuse_without_openssl(flag); }
std::string ReceiptPublicKey::pem() const { refuse_without_openssl("key"); }
bool ReceiptPublicKey::verifies(const tenon::Receipt&) const { refuse_without_openssl("signature"); }
tenon::Receipt ReceiptKey::sign(tenon::Receipt) const { refuse_without_openssl("receipt"); }

#endif

tenon::ReceiptCheck check_signature(const tenon::Receipt& receipt, std::span<const ReceiptPublicKey> keys) {
  const auto wrong = [](std::string why) {
    return tenon::ReceiptCheck{.holds = false, .field = "signature", .why = std::move(why)};
  };
  if (receipt.signature.empty()) return wrong("is missing: the receipt is not signed");
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& each) { return each.id() == receipt.key; });
  if (found == keys.end()) return wrong("is by the key " + tenon::printable(receipt.key, 40) + ", which is not given");
  if (!found->verifies(receipt)) return wrong("does not hold: the receipt was changed, or another key signed it");
  return {};
}

}  // namespace program
