# Warns a project that uses tenon without optimisation. Included by tenonConfig.cmake, and when tenon is a subdirectory
# of another project.
get_property(tenon_multi_config_ GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
get_property(tenon_warned_ GLOBAL PROPERTY TENON_WARNED_OF_BUILD_TYPE)
get_property(tenon_options_ DIRECTORY PROPERTY COMPILE_OPTIONS)
if(NOT CMAKE_BUILD_TYPE AND NOT tenon_multi_config_ AND NOT tenon_warned_ AND NOT tenon_FIND_QUIETLY
    AND NOT "${CMAKE_CXX_FLAGS};${tenon_options_}" MATCHES "(^|[ ;])[-/]O")
  message(WARNING "tenon: CMAKE_BUILD_TYPE is not set, so the compiler does not optimise, and engines run 9 to 15 times "
    "slower; add -DCMAKE_BUILD_TYPE=Release")
  set_property(GLOBAL PROPERTY TENON_WARNED_OF_BUILD_TYPE TRUE)
endif()
unset(tenon_multi_config_)
unset(tenon_warned_)
unset(tenon_options_)
