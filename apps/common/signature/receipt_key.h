// Ed25519 signatures of receipts (docs/receipts.md#signatures).
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "tenon/engine/receipt.h"
#include "tenon/engine/verify.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace program {

// A public key. Copies share it; const use is thread-safe.
class ReceiptPublicKey {
 public:
  // Reads a PEM file. `flag` names the file in errors, as "--public-key". tenon::Error: io or invalid_file for the
  // file; unsupported for a key of another kind, and in a program that was built without OpenSSL.
  static ReceiptPublicKey read(const std::string& flag, const std::filesystem::path& file);

  // The first 16 hexadecimal digits of SHA-256 over the key in DER form (SubjectPublicKeyInfo).
  const std::string& id() const { return id_; }
  std::string pem() const;
  // Whether Receipt::signature is this key's, over signed_text(). Receipt::key is not looked at.
  bool verifies(const tenon::Receipt& receipt) const;

 protected:
  explicit ReceiptPublicKey(std::shared_ptr<evp_pkey_st> key);
  evp_pkey_st* key() const { return key_.get(); }

 private:
  std::shared_ptr<evp_pkey_st> key_;
  std::string id_;
};

// A private key, with its public key.
class ReceiptKey : public ReceiptPublicKey {
 public:
  // As ReceiptPublicKey::read. A file with a password is an error; the terminal is not asked.
  static ReceiptKey read(const std::string& flag, const std::filesystem::path& file);

  // The receipt with `key` and `signature`. tenon::Error internal if OpenSSL fails.
  tenon::Receipt sign(tenon::Receipt receipt) const;

 private:
  using ReceiptPublicKey::ReceiptPublicKey;
};

// Whether the receipt is signed by one of the keys. The field of a check that failed is `signature`.
tenon::ReceiptCheck check_signature(const tenon::Receipt& receipt, std::span<const ReceiptPublicKey> keys);

}  // namespace program
