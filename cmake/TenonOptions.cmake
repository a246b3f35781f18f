# The options of a build. All of them are off if tenon is a subdirectory of another project.

include(CMakeDependentOption)
option(TENON_LIBRARY_ONLY "Only the library, whatever the options below say: it is installed without a build" OFF)
cmake_dependent_option(TENON_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL} "NOT TENON_LIBRARY_ONLY" OFF)
cmake_dependent_option(TENON_BUILD_EXAMPLES "Build the numbered examples" ${PROJECT_IS_TOP_LEVEL} "NOT TENON_LIBRARY_ONLY" OFF)
cmake_dependent_option(TENON_BUILD_PROGRAM "Build the program tenon" ${PROJECT_IS_TOP_LEVEL} "NOT TENON_LIBRARY_ONLY" OFF)
cmake_dependent_option(TENON_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL} "NOT TENON_LIBRARY_ONLY" OFF)
option(TENON_INSTALL "Make the install rules" ${PROJECT_IS_TOP_LEVEL})
option(TENON_WARNINGS_AS_ERRORS "A warning in this repository's own code is an error" OFF)

# TENON_WITH_COMPILED: the value of TENON_COMPILED_FACE in this build.
set(TENON_COMPILED_FACE AUTO CACHE STRING
  "Build and install tenon::compiled also where nothing links it: ON, OFF, or AUTO (where this is the top-level project and not TENON_LIBRARY_ONLY)")
set_property(CACHE TENON_COMPILED_FACE PROPERTY STRINGS AUTO ON OFF)
set(TENON_WITH_COMPILED ${TENON_COMPILED_FACE})
if(TENON_COMPILED_FACE STREQUAL "AUTO")
  set(TENON_WITH_COMPILED ${PROJECT_IS_TOP_LEVEL})
  if(TENON_LIBRARY_ONLY)
    set(TENON_WITH_COMPILED OFF)
  endif()
endif()

set(tenon_server_default OFF)
if(PROJECT_IS_TOP_LEVEL AND EXISTS "${PROJECT_SOURCE_DIR}/apps/serve/CMakeLists.txt")
  set(tenon_server_default ON)
endif()
cmake_dependent_option(TENON_BUILD_SERVER "Build the servers" ${tenon_server_default} "NOT TENON_LIBRARY_ONLY" OFF)

set(tenon_cuda_default OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(tenon_cuda_default AUTO)
endif()
set(TENON_BUILD_CUDA ${tenon_cuda_default} CACHE STRING "Compile what needs nvcc: ON, OFF, or AUTO (where nvcc is found)")
set_property(CACHE TENON_BUILD_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TENON_CUDA_PRODUCT_ARCHITECTURES "" CACHE STRING "Compute capabilities that the tests of products and attention are compiled for besides CMAKE_CUDA_ARCHITECTURES")
option(TENON_TEST_ALL_HEADERS "Compile every header alone with every compiler in the tests, not all of them together (many minutes)" OFF)

set(TENON_MENU full CACHE STRING
  "Engines of the program: full; cpu, all but those that need nvcc; cuda, those of a GPU and their twins on the CPU; default, one, which compiles in a fraction of the time")
set_property(CACHE TENON_MENU PROPERTY STRINGS full cpu cuda default)
if(NOT TENON_MENU MATCHES "^(full|cpu|cuda|default)$")
  message(FATAL_ERROR "tenon: TENON_MENU is ${TENON_MENU}; full, cpu, cuda or default is needed")
endif()

if(PROJECT_IS_TOP_LEVEL)
  get_property(tenon_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT CMAKE_BUILD_TYPE AND NOT tenon_multi_config)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
    message(STATUS "tenon: no build type was named, taking Release")
  endif()
  # The kernels unroll their loops themselves and run at the same rate from -O1 to -O3 (docs/decisions/0002).
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  # g++ collects its garbage once it has 128 MiB. Units of this project need about 1 GiB, and compile an eighth faster
  # without the collections.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>")
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
else()
  include("${CMAKE_CURRENT_LIST_DIR}/TenonBuildType.cmake")
endif()

# TENON_CUDA: the value of TENON_BUILD_CUDA on this machine.
set(TENON_CUDA OFF)
if(TENON_BUILD_CUDA AND NOT TENON_LIBRARY_ONLY)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(TENON_CUDA ON)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)  # later devices translate 80: no kernel needs more
      set(CMAKE_CUDA_ARCHITECTURES 80 90a-real CACHE STRING "Compute capabilities to compile for")
    endif()
  elseif(TENON_BUILD_CUDA STREQUAL "AUTO")
    message(STATUS "tenon: nvcc was not found; what needs CUDA is left out")
  else()
    message(FATAL_ERROR "tenon: TENON_BUILD_CUDA is ON and nvcc was not found; put it on PATH or set CMAKE_CUDA_COMPILER")
  endif()
endif()

# Warnings are for targets of this repository, never for targets that link tenon::tenon.
set(TENON_WARNING_FLAGS -Wall -Wextra -Wshadow -Wconversion)
set(TENON_WARNING_FLAGS_CLANG ${TENON_WARNING_FLAGS} -Wno-sign-conversion)  # g++ excludes that from -Wconversion
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND TENON_WARNING_FLAGS -Wno-restrict)  # false alarms on std::string's operator+ (GCC bug 105651)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND TENON_WARNING_FLAGS -Wno-subobject-linkage)  # g++ takes the sources of a unity build for headers
endif()
if(TENON_WARNINGS_AS_ERRORS)
  list(APPEND TENON_WARNING_FLAGS -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Warnings that depend on the optimiser's guesses stay warnings.
    list(APPEND TENON_WARNING_FLAGS -Wno-error=array-bounds -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow
      -Wno-error=stringop-overread)
  endif()
  list(APPEND TENON_WARNING_FLAGS_CLANG -Werror)
endif()
add_library(tenon_warnings INTERFACE)
target_compile_options(tenon_warnings INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:${TENON_WARNING_FLAGS}>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:${TENON_WARNING_FLAGS_CLANG}>")

# The default model. The program looks for share/tenon/models/tales below its own folder and below that folder's parent.
# So it is found in the build tree (by a link) and below an install prefix.
set(TENON_DEFAULT_MODEL "${PROJECT_SOURCE_DIR}/examples/models/tales")
