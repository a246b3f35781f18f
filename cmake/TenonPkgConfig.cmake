# tenon_install_pkg_config(NAME FOLDER): installs NAME.pc, made from cmake/NAME.pc.in, in FOLDER below the prefix. The
# file finds the prefix relative to its own path, so it is right for every `cmake --install --prefix` and may be moved
# with the prefix.
function(tenon_install_pkg_config name folder)
  set(tenon_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  set(tenon_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up "/prefix/${folder}" "/prefix")
  set(tenon_pc_prefix "\${pcfiledir}/${up}")
  cmake_path(IS_ABSOLUTE folder no_prefix)
  if(no_prefix)  # a folder that does not move with the prefix
    set(tenon_pc_prefix "${CMAKE_INSTALL_PREFIX}")
  endif()
  foreach(each includedir libdir)
    string(TOUPPER ${each} upper)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${upper}}")
      set(tenon_pc_${each} "${CMAKE_INSTALL_${upper}}")
    endif()
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/cmake/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/cmake/${name}.pc" DESTINATION "${folder}")
endfunction()
