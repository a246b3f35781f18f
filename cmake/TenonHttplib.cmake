# OpenSSL for programs that include cpp-httplib.

# Debian's headers of cpp-httplib call OpenSSL, and from Debian 13 on its library does not hold what they call: a program
# links OpenSSL itself. cflags: those of cpp-httplib.
function(tenon_link_openssl_of_httplib target cflags)
  if(NOT cflags MATCHES "CPPHTTPLIB_OPENSSL_SUPPORT")
    return()
  endif()
  find_package(OpenSSL QUIET)
  if(OPENSSL_FOUND)
    target_link_libraries(${target} PRIVATE OpenSSL::SSL OpenSSL::Crypto)
  endif()
endfunction()
