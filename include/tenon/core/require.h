// Requirements of the library on the compiler. Every header of the library includes this one before any other.
//
// An #error would not end the compilation: without C++20, g++ goes on to report 1,800 more. An #include of a file that
// does not exist ends it, in g++ and in clang++. So each message below is the name of such a file.
#pragma once
#if __cplusplus < 202002L
#include "tenon: C++20 is needed; compile with -std=c++20 or newer"  // the name is the message
#elif !defined(__cpp_exceptions)
#include "tenon: exceptions are needed; compile without -fno-exceptions"  // the name is the message
// g++ reorders even intrinsics under -fassociative-math alone.
#elif defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#include "tenon: -ffast-math reorders sums, and with it every answer; compile without it"  // the name is the message
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#include "tenon: -ffinite-math-only drops checks for NaN and infinity; compile without it"  // the name is the message
#endif

#include "tenon/core/face.h"
