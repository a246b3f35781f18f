# What programs that include cpp-httplib link beside it.

# Debian 13's headers of cpp-httplib call OpenSSL themselves, and its package names OpenSSL for static linking alone.
# cflags: those of cpp-httplib.
function(tenon_link_openssl_of_httplib target cflags)
  if(cflags MATCHES "CPPHTTPLIB_OPENSSL_SUPPORT")
    find_package(OpenSSL REQUIRED)
    target_link_libraries(${target} PRIVATE OpenSSL::SSL OpenSSL::Crypto)
  endif()
endfunction()
