# tenon_add_unit_test(SOURCE): a Boost.Test program from a path below tests/, and the ctest of the same name with dots.
function(tenon_add_unit_test source)
  cmake_path(REMOVE_EXTENSION source LAST_ONLY OUTPUT_VARIABLE stem)
  string(REPLACE "/" "." test_name "${stem}")
  if(source MATCHES "\\.cu$")
    string(APPEND test_name ".cuda")
  endif()
  string(REPLACE "." "_" target "test_${test_name}")
  if(source MATCHES "\\.cu$")
    set_property(DIRECTORY APPEND PROPERTY tenon_cuda_test_targets ${target})
  endif()

  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE tenon::tenon tenon_warnings Boost::unit_test_framework)
  target_compile_definitions(${target} PRIVATE
    BOOST_TEST_DYN_LINK _GLIBCXX_ASSERTIONS
    TENON_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TENON_BINARY_DIR="${PROJECT_BINARY_DIR}"
    TENON_DEFAULT_MODEL_DIR="${TENON_DEFAULT_MODEL}")
  # Quicker to compile; the bits are the same at every level (docs/numerics.md).
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  add_test(NAME "${test_name}" COMMAND ${target})
  set_tests_properties("${test_name}" PROPERTIES LABELS unit TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

# What a compiler needs to be told to see the headers of the library and of its dependencies, with no build system around.
set(TENON_INCLUDE_FLAGS "-I${PROJECT_SOURCE_DIR}/include")
foreach(dependency nlohmann_json::nlohmann_json utf8proc::utf8proc)
  get_target_property(folders ${dependency} INTERFACE_INCLUDE_DIRECTORIES)
  if(folders)
    list(REMOVE_ITEM folders ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    foreach(folder IN LISTS folders)
      list(APPEND TENON_INCLUDE_FLAGS -isystem "${folder}")
    endforeach()
  endif()
endforeach()

# The compilers that headers and misuse are tried with: the one of this build, and clang++ and nvcc where they are found.
set(TENON_COMPILER_cxx "${CMAKE_CXX_COMPILER}")
set(TENON_COMPILERS cxx)
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  find_program(TENON_CLANG clang++)
  if(TENON_CLANG)
    list(APPEND TENON_COMPILERS clang)
    set(TENON_COMPILER_clang "${TENON_CLANG}")
  endif()
endif()
if(TENON_CUDA)
  set(TENON_COMPILER_nvcc "${CMAKE_CUDA_COMPILER}")
endif()
