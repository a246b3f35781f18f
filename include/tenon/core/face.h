// Two faces of one source. Header-only: every definition is inline, in the headers. Compiled: libtenon has the code
// that depends on no template parameter of the user's. `foo.h` declares. `foo-inl.h` defines; foo.h includes it in the
// header-only face, src/ in the compiled one (docs/decisions/0025-two-faces.md).
#pragma once

// The linked target, tenon::tenon or tenon::compiled, sets one of the two macros. Neither: header-only.
#if defined(TENON_COMPILED) && defined(TENON_HEADER_ONLY)
#include "tenon: one target links tenon::tenon and tenon::compiled; link one of them"  // the name is the message
#endif

#ifdef TENON_COMPILED
#define TENON_INLINE
#else
#define TENON_INLINE inline
#endif

// A program whose units have different faces would have two definitions of one function. The linker refuses it:
// libtenon defines a name as thread-local that header-only units use as an ordinary one.
#if defined(__ELF__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
extern "C" {
#ifdef TENON_COMPILED
extern const char tenon_compiled_face;
#else
[[gnu::weak]] extern const char tenon_error_header_only_and_compiled_units_are_mixed;
#endif
}
#if !defined(TENON_COMPILED) && !defined(__CUDACC__)
// lld compares only references that have a type, and compilers give none to undefined names. (With clang's LTO they
// have none despite this line, and lld accepts the mix.)
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
