# std::fma is exact with and without this flag (docs/numerics.md). Without it the C library may compute it in software,
# and the plain C++ kernels take 35 times as long.
include(CheckCXXSourceRuns)
check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"fma\") ? 0 : 1; }" TENON_HAS_FMA)

# Options of all test programs.
function(tenon_set_up_tests target)
  target_link_libraries(${target} PRIVATE tenon::compiled tenon_warnings Boost::unit_test_framework)
  target_compile_definitions(${target} PRIVATE
    BOOST_TEST_DYN_LINK _GLIBCXX_ASSERTIONS
    TENON_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TENON_BINARY_DIR="${PROJECT_BINARY_DIR}"
    TENON_DEFAULT_MODEL_DIR="${TENON_DEFAULT_MODEL}")
  # -O1 compiles faster; the bits are the same at every level (docs/numerics.md).
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>
    $<$<AND:$<BOOL:${TENON_HAS_FMA}>,$<COMPILE_LANGUAGE:CXX>>:-mfma>)
endfunction()

# Headers that nearly all tests include, compiled once. Boost.Test is left out, because a macro before its include
# decides about main().
add_library(tenon_test_headers OBJECT precompiled.cpp)
tenon_set_up_tests(tenon_test_headers)
target_precompile_headers(tenon_test_headers PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_CURRENT_SOURCE_DIR}/precompiled.h>")

function(tenon_use_precompiled target)
  target_precompile_headers(${target} REUSE_FROM tenon_test_headers)
endfunction()

function(tenon_add_unit_test name)  # and its command
  add_test(NAME "${name}" COMMAND ${ARGN})
  set_tests_properties("${name}" PROPERTIES LABELS unit TIMEOUT 900 SKIP_RETURN_CODE 77)
endfunction()

# tenon_add_unit_tests(SOURCES...): Boost.Test programs from paths below tests/, and one ctest per source, named like
# the path with dots. A source with BOOST_TEST_MODULE, or with the suffix .cu, is a program test_<folder>_<name>. The
# others are suites <folder>_<name> of one program per folder, test_<folder>, because they compile mostly the same
# headers.
function(tenon_add_unit_tests)
  set(folders "")
  foreach(source IN LISTS ARGN)
    cmake_path(REMOVE_EXTENSION source LAST_ONLY OUTPUT_VARIABLE stem)
    string(REPLACE "/" "." test_name "${stem}")
    string(REPLACE "/" "_" suite "${stem}")
    cmake_path(GET source PARENT_PATH folder)
    string(REPLACE "/" "_" folder "${folder}")
    file(STRINGS "${source}" module REGEX "^#define BOOST_TEST_MODULE" LIMIT_COUNT 1)
    if(source MATCHES "\\.cu$")
      add_executable(test_${suite}_cuda "${source}")
      tenon_set_up_tests(test_${suite}_cuda)
      tenon_add_unit_test(${test_name}.cuda test_${suite}_cuda)
      if(suite MATCHES "^ops_cuda_(linear|low_rank|attention)")
        set(architectures ${TENON_CUDA_PRODUCT_ARCHITECTURES} ${CMAKE_CUDA_ARCHITECTURES})
        list(REMOVE_DUPLICATES architectures)
        set_target_properties(test_${suite}_cuda PROPERTIES CUDA_ARCHITECTURES "${architectures}")
      endif()
      set_property(DIRECTORY APPEND PROPERTY tenon_cuda_test_targets test_${suite}_cuda)
    elseif(module)
      add_executable(test_${suite} "${source}")
      tenon_set_up_tests(test_${suite})
      tenon_use_precompiled(test_${suite})
      tenon_add_unit_test(${test_name} test_${suite})
    else()
      list(APPEND folders ${folder})
      list(APPEND sources_of_${folder} "${source}")
      tenon_add_unit_test(${test_name} test_${folder} --run_test=${suite})
    endif()
  endforeach()

  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    add_executable(test_${folder} test_main.cpp ${sources_of_${folder}})
    tenon_set_up_tests(test_${folder})
    tenon_use_precompiled(test_${folder})
  endforeach()
  set_source_files_properties(test_main.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# tenon_add_python_tests(FOLDER TARGET): each <folder>/test_<name>.py is the ctest <folder>.<name>, with the program as
# argument.
function(tenon_add_python_tests folder target)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/test_*.py")
  foreach(source IN LISTS sources)
    string(REGEX REPLACE "^.*/test_(.*)\\.py$" "${folder}.\\1" test_name "${source}")
    add_test(NAME "${test_name}" COMMAND Python3::Interpreter -B "${source}" "$<TARGET_FILE:${target}>")
    set_tests_properties("${test_name}" PROPERTIES LABELS ${folder} TIMEOUT 300 SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# Appends the compiler flags for the headers of the library and of its dependencies, for use without a build system.
function(tenon_append_include_flags variable)  # and the targets
  foreach(dependency IN LISTS ARGN)
    get_target_property(folders ${dependency} INTERFACE_INCLUDE_DIRECTORIES)
    if(folders)
      list(REMOVE_ITEM folders ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
      foreach(folder IN LISTS folders)
        list(APPEND ${variable} -isystem "${folder}")
      endforeach()
    endif()
  endforeach()
  set(${variable} ${${variable}} PARENT_SCOPE)
endfunction()
set(TENON_INCLUDE_FLAGS "-I${PROJECT_SOURCE_DIR}/include")
tenon_append_include_flags(TENON_INCLUDE_FLAGS nlohmann_json::nlohmann_json utf8proc::utf8proc)
set(TENON_EIGEN_FLAGS "")  # additional flags for tenon/eigen.h
if(TENON_EIGEN)
  tenon_append_include_flags(TENON_EIGEN_FLAGS Eigen3::Eigen)
endif()

# The compilers for the tests of headers and misuse: that of this build, and clang++ and nvcc if they are found.
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
