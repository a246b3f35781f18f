// Signatures of receipts, and the files of their keys.
#include "signature/receipt_key.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "serve/api/receipt_signer.h"
#include "tenon/core/error.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_receipt_key)

using program::check_signature;
using program::ReceiptKey;
using program::ReceiptPublicKey;
using serve::ReceiptSigner;
using tenon::Error;
using tenon::Receipt;

namespace {

// Made for this test by `openssl genpkey`.
constexpr const char* kPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIORUVm2hTlAdBvMPPBcLrKA8CAKaehcQ4Tm4MyptNrSa\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAk/iO4rnNFWJ4ii6mdeU86z3nz0VCUm/ymtD2yr8FM8U=\n"
    "-----END PUBLIC KEY-----\n";
constexpr const char* kOtherPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ9SqyjOahZGgJG3G9L2dLcRZ27ekVLGW0UE3Ja+FO4q\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kX25519 =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIKgxcbaIckXsDHLCjAk6Hje27sw1Ec63Ru50z0r3FaZ7\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kWithPassword =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjz7K2npRvW8wICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEEDoIOathNwnX7ZqBjdiUAbIEQPYR\n"
    "Z2YvCWpx8GKxyxutOogGzbAbV7hFm+pPNq5xc0I7GtFLf+hMPC8+kL1RohXIdXtC\n"
    "EhN4ZsljNSvmZ2uM11Q=\n-----END ENCRYPTED PRIVATE KEY-----\n";

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tenon-receipt-key-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return path / name;
  }
};

ReceiptKey private_key(const char* pem = kPrivate) {
  const Folder folder;
  return ReceiptKey::read("--receipt-key", folder.write("key", pem));
}
ReceiptPublicKey public_key() {
  const Folder folder;
  return ReceiptPublicKey::read("--public-key", folder.write("key", kPublic));
}

Receipt unsigned_receipt() {
  Receipt r;
  r.library = "0.1.0";
  r.fingerprint = "ab";
  r.prompt_ids = {5, 6};
  r.options = {.max_new_tokens = 2, .temperature = 0.8f, .seed = 18446744073709551615U, .stop = {"\u00e9\n"}};
  r.ids = {7};
  r.reason = tenon::FinishReason::stop;
  r.links = {0x01020304};
  return r;
}

std::string field_of(const Receipt& receipt, const std::vector<ReceiptPublicKey>& keys) {
  const tenon::ReceiptCheck check = check_signature(receipt, keys);
  return check.holds ? "holds" : check.field + ": " + check.why;
}

}  // namespace

// Ed25519 has one signature of a text: this one is by `openssl pkeyutl -sign -rawin`, over a text that Python wrote.
BOOST_AUTO_TEST_CASE(signatures_are_those_of_other_programs) {
  const Receipt signed_receipt = private_key().sign(unsigned_receipt());
  BOOST_TEST(signed_receipt.key == "e60348deb81667ed");  // openssl pkey -pubin -outform DER | sha256sum
  BOOST_TEST(signed_receipt.signature ==
             "2d4ae5ce5dabf54facfa31ab44457bc14a36c2e59847d596205cecac5de3ae95"
             "a6ea5fdeba1112e575e455267234f5c74a0ee3d47cf15b0079ab4d9482ec5c0b");
  BOOST_TEST(public_key().id() == signed_receipt.key);
  BOOST_TEST(public_key().pem() == kPublic);
  BOOST_TEST(private_key().pem() == kPublic);
  BOOST_TEST(field_of(signed_receipt, {public_key()}) == "holds");
  BOOST_TEST(field_of(signed_receipt, {private_key(kOtherPrivate), public_key()}) == "holds");
  BOOST_TEST(field_of(tenon::receipt_from(to_json(signed_receipt)), {public_key()}) == "holds");
}

BOOST_AUTO_TEST_CASE(a_change_of_any_field_breaks_it) {
  const tenon::Json right = to_json(private_key().sign(unsigned_receipt()));
  // Another value of the same type, which a receipt may have.
  const auto changed = [](const std::string& name, const tenon::Json& value) -> tenon::Json {
    if (name == "finish_reason") return "length";
    if (name == "adapters") return {{{"name", "a"}, {"digest", "b"}, {"weight", 1}}};
    if (name == "constraint") return {{"kind", "regex"}, {"text", ""}, {"digest", tenon::Sha256().hex()}};
    if (name == "stop") return {"other"};
    if (name == "logit_bias") return {{5, 1.0}};
    if (name == "stop_ids" || name == "ids" || name == "prompt_ids") return {3};
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_number_float()) return value.get<double>() + 0.5;
    if (value.is_number()) return value.get<std::uint64_t>() ^ 1;
    std::string text = value;
    text.back() = text.back() == '0' ? '1' : '0';
    return text;
  };
  std::size_t changes = 0;
  const auto check = [&](const tenon::Json& other, const std::string& name) {
    const std::string field = field_of(tenon::receipt_from(other), {public_key()});
    BOOST_TEST(field.starts_with("signature: "), name << ": " << field);
    ++changes;
  };
  for (const auto& item : right.items()) {
    if (item.key() == "format" || item.key() == "parameters") continue;  // the reader refuses another format
    tenon::Json other = right;
    other[item.key()] = changed(item.key(), item.value());
    check(other, item.key());
  }
  for (const auto& item : right["parameters"].items()) {
    tenon::Json other = right;
    other["parameters"][item.key()] = changed(item.key(), item.value());
    check(other, item.key());
  }
  BOOST_TEST(changes == right.size() - 2 + right["parameters"].size());
  // Each bit of the signature.
  for (std::size_t bit = 0; bit < 512; ++bit) {
    Receipt other = tenon::receipt_from(right);
    const std::string digits = "0123456789abcdef";
    char& digit = other.signature[bit / 4];
    digit = digits[digits.find(digit) ^ (std::size_t{1} << bit % 4)];
    BOOST_TEST(field_of(other, {public_key()}).starts_with("signature: "));
  }
}

BOOST_AUTO_TEST_CASE(a_missing_signature_and_another_key_are_told) {
  BOOST_TEST(field_of(unsigned_receipt(), {public_key()}) == "signature: is missing: the receipt is not signed");
  const Receipt by_other = private_key(kOtherPrivate).sign(unsigned_receipt());
  BOOST_TEST(field_of(by_other, {public_key()}) ==
             "signature: is by the key " + private_key(kOtherPrivate).id() + ", which is not given");
  Receipt forged = by_other;  // who signs cannot name another's key
  forged.key = public_key().id();
  BOOST_TEST(field_of(forged, {public_key()}).starts_with("signature: does not hold"));
  Receipt none = private_key().sign(unsigned_receipt());
  none.signature = "no digits";
  BOOST_TEST(field_of(none, {public_key()}).starts_with("signature: does not hold"));
}

BOOST_AUTO_TEST_CASE(wrong_files_are_refused_with_their_flag) {
  const Folder folder;
  const auto refused = [&](Error::Kind kind, const std::string& part, auto&& read) {
    BOOST_CHECK_EXCEPTION(read(), Error, [&](const Error& error) {
      const std::string what = error.what();
      BOOST_TEST((error.kind() == kind), what);
      BOOST_TEST(what.starts_with("--"), what);
      BOOST_TEST(what.find(part) != what.npos, what);
      return true;
    });
  };
  const auto key = [&](const std::string& text) {
    return [file = folder.write("k", text)] { ReceiptKey::read("--receipt-key", file); };
  };
  const auto public_of = [&](const std::string& text) {
    return [file = folder.write("p", text)] { ReceiptPublicKey::read("--public-key", file); };
  };
  refused(Error::Kind::io, "none", [&] { ReceiptKey::read("--receipt-key", folder.path / "none"); });
  refused(Error::Kind::invalid_file, "regular", [&] { ReceiptKey::read("--receipt-key", folder.path); });
  refused(Error::Kind::invalid_file, "holds no private key", key(""));
  refused(Error::Kind::invalid_file, "holds no private key", key(kPublic));
  refused(Error::Kind::invalid_file, "without a password", key(kWithPassword));
  refused(Error::Kind::unsupported, "X25519", key(kX25519));
  refused(Error::Kind::invalid_file, "holds no public key", public_of(kPrivate));
  refused(Error::Kind::invalid_file, "openssl pkey", public_of("text"));
}

BOOST_AUTO_TEST_CASE(the_servers_key_is_read_again) {
  BOOST_TEST(!ReceiptSigner({}).key());
  const Folder folder;
  const auto file = folder.write("key", kPrivate);
  ReceiptSigner signer(file);
  const auto first = signer.key();
  folder.write("key", kOtherPrivate);
  BOOST_TEST(signer.key()->id() == first->id());
  signer.read_again();
  BOOST_TEST(signer.key()->id() == private_key(kOtherPrivate).id());
  BOOST_TEST(first->id() == public_key().id());  // of requests that began before
  folder.write("key", "text");
  BOOST_CHECK_THROW(signer.read_again(), Error);
  BOOST_TEST(signer.key()->id() == private_key(kOtherPrivate).id());
}

BOOST_AUTO_TEST_SUITE_END()
