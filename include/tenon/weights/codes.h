// The codes in which checkpoints may be stored, by name.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/code.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4_code.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/normal_float4.h"

namespace tenon {

/// A list of codes.
template <WeightCode... Codes>
struct CodeList {};

/// The codes of the library.
using BuiltInCodes =
    CodeList<BFloat16Code, Float16Code, Float8Code<E4M3>, Float8Code<E5M2>, Int8Code<PerRow>, Int8Code<PerTensor>,
             GroupInt8Code, Int4Code<32>, Int4Code<64>, Int4Code<128>, NormalFloat4Code>;

/// A code without scales: each code is a number. Files store it as an ordinary tensor, in the shape and order of the
/// model's authors.
template <WeightCode C>
inline constexpr bool is_plain_code = !C::has_scales;

/// A weight policy that packs a block of codes and scales from a file. The result equals that of encoding the floats.
template <class P>
concept PacksCodes = WeightCode<typename P::Code> && !is_plain_code<typename P::Code> && PacksBlocks<P>;

namespace detail {

template <class Body, class First, class... Rest>
auto with_code(CodeList<First, Rest...>, std::string_view name, const std::string& where, const std::string& known,
               Body&& body) -> decltype(body(First{})) {
  if (name == First::name) return body(First{});
  const std::string list = known + (known.empty() ? "" : ", ") + std::string(First::name);
  if constexpr (sizeof...(Rest) > 0) return with_code(CodeList<Rest...>{}, name, where, list, body);
  throw Error(Error::Kind::unsupported, where,
              "\"" + printable(name, 60) + "\" is not a known weight format; known: " + list);
}

}  // namespace detail

/// Returns body(Code{}) for the code of that name. The return type must be the same for all codes. Error unsupported at
/// `where`, with the list of codes.
template <class Body>
auto with_code(std::string_view name, const std::string& where, Body&& body) {
  return detail::with_code(BuiltInCodes{}, name, where, "", body);
}

}  // namespace tenon
