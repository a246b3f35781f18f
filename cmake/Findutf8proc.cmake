# Finds utf8proc (Unicode classes and normal forms) and defines the imported target utf8proc::utf8proc. Prefers the
# package's own CMake files, then pkg-config's hints (Debian has only those), then the usual folders.

if(TARGET utf8proc::utf8proc)
  set(utf8proc_FOUND TRUE)
  return()
endif()

find_package(utf8proc CONFIG QUIET)
if(NOT TARGET utf8proc::utf8proc)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(PC_utf8proc QUIET libutf8proc)
  endif()
  find_path(utf8proc_INCLUDE_DIR utf8proc.h HINTS ${PC_utf8proc_INCLUDE_DIRS})
  find_library(utf8proc_LIBRARY utf8proc HINTS ${PC_utf8proc_LIBRARY_DIRS})
  mark_as_advanced(utf8proc_INCLUDE_DIR utf8proc_LIBRARY)
  if(utf8proc_INCLUDE_DIR AND EXISTS "${utf8proc_INCLUDE_DIR}/utf8proc.h")
    file(STRINGS "${utf8proc_INCLUDE_DIR}/utf8proc.h" utf8proc_version_lines
      REGEX "^#define UTF8PROC_VERSION_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM utf8proc_version_lines REPLACE "^.* ([0-9]+).*$" "\\1" OUTPUT_VARIABLE utf8proc_version_numbers)
    list(JOIN utf8proc_version_numbers "." utf8proc_VERSION)
  endif()
endif()

include(FindPackageHandleStandardArgs)
if(TARGET utf8proc::utf8proc)
  find_package_handle_standard_args(utf8proc CONFIG_MODE)
else()
  find_package_handle_standard_args(utf8proc
    REQUIRED_VARS utf8proc_LIBRARY utf8proc_INCLUDE_DIR VERSION_VAR utf8proc_VERSION
    REASON_FAILURE_MESSAGE "On Debian and Ubuntu it is in the package libutf8proc-dev.")
  if(utf8proc_FOUND)
    add_library(utf8proc::utf8proc UNKNOWN IMPORTED)
    set_target_properties(utf8proc::utf8proc PROPERTIES
      IMPORTED_LOCATION "${utf8proc_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${utf8proc_INCLUDE_DIR}")
  endif()
endif()
