# tenon_label_tests(): gives the label `fast`, which scripts/test runs, to each test of this directory without the label
# `full`. Call it at the end of each directory that adds tests.
function(tenon_label_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_property(labels TEST "${test}" PROPERTY LABELS)
    if(NOT "full" IN_LIST labels)
      set_property(TEST "${test}" APPEND PROPERTY LABELS fast)
    endif()
  endforeach()
endfunction()
