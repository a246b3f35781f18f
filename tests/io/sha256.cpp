#include "tenon/io/sha256.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <span>
#include <string>

#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(io_sha256)

using namespace tenon;

namespace {
// Digest with the processor's SHA instructions, where it has them. Checks that plain C++ gives the same.
std::string sha256(std::string_view text) {
  const std::string digest = Sha256().update(text).hex();
  BOOST_TEST(Sha256(false).update(text).hex() == digest);
  return digest;
}
}  // namespace

// NIST's examples for FIPS 180-4.
BOOST_AUTO_TEST_CASE(the_standards_examples) {
  BOOST_TEST(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  BOOST_TEST(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                    "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
             "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  BOOST_TEST(sha256(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Expected: Python's hashlib. One hash over the digests of all lengths around the ends of blocks.
BOOST_AUTO_TEST_CASE(every_length_is_padded) {
  Sha256 all;
  std::set<std::string> seen;
  for (std::size_t n = 0; n <= 200; ++n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += static_cast<char>(i * 7 + n);
    const std::string digest = sha256(text);
    BOOST_TEST(digest.size() == 64U);
    seen.insert(digest);
    all.update(digest);
  }
  BOOST_TEST(seen.size() == 201U);
  BOOST_TEST(all.hex() == "de444fd33c2915b23d3772a4de9aa249a9206ee2f93688a74e332e160c085f41");
}

BOOST_AUTO_TEST_CASE(pieces_do_not_matter) {
  std::string text;
  for (std::size_t i = 0; i < 300; ++i) text += static_cast<char>(i * 31);
  const std::string whole = sha256(text);
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.update(std::string_view(text).substr(at, piece)).update("");
      hash.digest();  // digest() may be called in between
    }
    BOOST_TEST(hash.hex() == whole);
  }
}

// Texts of every length around the ends of blocks, and of several blocks.
BOOST_AUTO_TEST_CASE(two_side_by_side) {
  for (std::size_t n = 0; n <= 300; ++n) {
    std::string a, b;
    for (std::size_t i = 0; i < n; ++i) a += static_cast<char>(i * 7 + n), b += static_cast<char>(i * 31 + 3 * n + 1);
    const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
    const auto digests = Sha256::both(bytes(a), bytes(b));
    BOOST_TEST((digests[0] == Sha256(false).update(a).digest()));
    BOOST_TEST((digests[1] == Sha256(false).update(b).digest()));
  }
  BOOST_CHECK_THROW(Sha256::both(std::as_bytes(std::span("ab")), std::as_bytes(std::span("a"))), Error);
}

BOOST_AUTO_TEST_SUITE_END()
