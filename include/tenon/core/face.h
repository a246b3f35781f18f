// Two faces of one source. Header-only: every definition is inline, in the headers. Compiled: what depends on no
// template parameter of the user's stands in libtenon. `foo.h` declares; `foo-inl.h` defines, and is included by foo.h
// in the header-only face and by src/ in the compiled one (docs/decisions/0025-two-faces.md).
#pragma once

// Set by the target that is linked, tenon::tenon or tenon::compiled, never by hand. Neither: header-only.
#if defined(TENON_COMPILED) && defined(TENON_HEADER_ONLY)
#include "tenon: one target links tenon::tenon and tenon::compiled; link one of them"  // the name is the message
#endif

#ifdef TENON_COMPILED
#define TENON_INLINE
#else
#define TENON_INLINE inline
#endif

// A program whose units have different faces would have two definitions of one function. Its linker says so: libtenon
// defines a name as thread-local that units of the header-only face use as an ordinary one, which linkers refuse.
#if defined(__ELF__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
extern "C" {
#ifdef TENON_COMPILED
extern const char tenon_compiled_face;
#else
[[gnu::weak]] extern const char tenon_error_header_only_and_compiled_units_are_mixed;
#endif
}
#if !defined(TENON_COMPILED) && !defined(__CUDACC__)
// lld compares only references that have a type, and compilers give none to what they do not define. (With clang's LTO
// they have none all the same, and lld says nothing.)
__asm__(".type tenon_error_header_only_and_compiled_units_are_mixed, %object");
#endif
namespace tenon::detail {
#ifdef TENON_COMPILED
[[gnu::used]] static const char* const face = &tenon_compiled_face;
#else
[[gnu::used]] static const char* const face = &tenon_error_header_only_and_compiled_units_are_mixed;
#endif
}  // namespace tenon::detail
#endif
